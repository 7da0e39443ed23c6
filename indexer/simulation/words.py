"""The words that simulated people use; in their mix is the trouble that a search engine has to take.

Each list is written as text, its entries apart by `|`. Blanks around an entry do not count; `_` stands
for one that does, and alone for nothing at all.
"""


def _entries(text: str) -> tuple[str, ...]:
    entries = (entry.strip() for line in text.strip().splitlines() for entry in line.split("|"))
    return tuple("" if entry == "_" else entry.replace("_", " ") for entry in entries)


JA_WHEN = _entries("""
今日 | 昨日 | 明日 | 今朝 | さっき | 週末 | 最近 | この前 | 夜中 | お昼 | 来週 | 久しぶりに
去年の夏 | 雨の日 | 帰り道 | 休みの日 | 毎朝 | 春先 | 年末 | ゴールデンウィーク
""")

JA_THINGS = _entries("""
猫 | ねこ | 子犬 | 珈琲 | コーヒー | 抹茶ラテ | ラーメン | カレー | おにぎり | 寿司 | 東京の夜景
京都の紅葉 | 散歩 | 写真 | カメラ | 自転車 | 電車 | 鉄道模型 | 星空 | 天の川 | 花火 | 桜 | 紫陽花
雪景色 | 温泉 | 読書 | 小説 | 漫画 | アニメ | ゲーム | ボードゲーム | 音楽 | ピアノ | ギター
ライブ | 映画 | プログラミング | データベース | サーバー | 設計メモ | 数学 | 量子力学 | 植物
サボテン | 園芸 | 釣り | 登山 | キャンプ | 焚き火 | 文房具 | 万年筆 | 手帳 | 編み物 | 陶芸
お絵描き | イラスト | 配信 | 旅行 | 神社 | 古本屋 | 喫茶店 | パン屋 | 朝ごはん | 夜食 | お弁当
天気 | 夕焼け | 台風 | 地震 | 引っ越し | 掃除 | 洗濯 | 睡眠 | 筋トレ | マラソン | サッカー | 野球
将棋 | 囲碁 | 麻雀 | 分散SNS | コンカレント | タイムライン | 𠮷野家の牛丼
""")

JA_DOES = _entries("""
を楽しんだ | のことばかり考えている | がとても良かった | を始めてみた | に夢中 | を見つけた
が好きすぎる | について語りたい | を作ってみました | を買ってしまった | はやっぱり最高
に行ってきた | が足りない | を忘れてた | で癒やされた | のおすすめを教えてください | の写真を撮った
がうまくいかない | を直した | に挑戦中です | を眺めてぼーっとしている | の話で盛り上がった
が届いた！ | は難しいなあ | を友達と分け合った
""")

JA_ASIDES = _entries("""
眠い。 | おはようございます☀️ | おやすみなさい🌙 | なるほど〜 | それな。 | わかる…！ | ありがとう！
草 | よし、やるぞ。 | ひとまず休憩。 | 続きはまた今度。 | うれしい😊 | つらい😭 | お腹すいた
がんばろう💪 | すごい！ | ｶﾜｲｲ | ﾈｺﾁｬﾝ | ＯＫです | ググってもわからん | ①準備②実行③寝る
㍿のひとです | 第Ⅳ章まで読んだ
""")

EN_SUBJECTS = _entries("""
My cat | The coffee | This library | A quiet evening | The new server | Our garden | The night train
That book | The database | My old camera | The weather | A friend | The community | Everyone here
The morning walk | This recipe | The timeline | A small bug | My keyboard | The festival
""")

EN_VERBS = _entries("""
is better than expected | keeps me awake | finally works | made my day | needs more love
surprised us | was worth the wait | smells wonderful | is broken again | runs faster now
looks beautiful in the rain | tastes like summer | deserves a second chance | taught me patience
is all I can think about
""")

KO_SENTENCES = _entries("""
오늘은 날씨가 정말 좋다. | 이 고양이 너무 귀여워! | 커피 한 잔 하고 시작합니다.
새로운 서버가 드디어 열렸어요. | 주말에 산책을 다녀왔다. | 한국어로 써도 괜찮나요? | 라면 먹고 싶다.
좋은 아침입니다 ☀️ | 사진을 많이 찍었어요.
""")

EMOJI = _entries("""
😀 | 😂 | 🥺 | 🙏 | 🎉 | ✨ | 🌸 | 🍣 | 🍜 | ☕ | 🐈 | 🐈‍⬛ | 🦊 | 🚀 | ⛄ | ⛄️ | ❤️ | ❤️‍🔥
👍🏽 | 👨‍👩‍👧 | 👨‍👩‍👧‍👦 | 👩🏾‍💻 | 🧑‍🚀 | 🏳️‍🌈 | 🇯🇵 | 🇰🇷 | 1️⃣ | 🫠 | 🪿
""")

TECH = _entries("""
PostgreSQL | Python | Rust | Go言語 | Linux | Docker | db設計 | API | SNS | OSS | WebSocket | JSON
Unicode | ＨＴＭＬ | CSS | ﾌﾟﾛｸﾞﾗﾐﾝｸﾞ | ガイド | ｶﾞｲﾄﾞ | İstanbul | café | naïve
""")

TAGS = _entries("""
猫 | 日常 | photo | music | コンカレント | dev | 飯テロ | ラーメン | 花 | NowPlaying | 絵 | 朝活
""")

JA_FAMILY = _entries("""
佐藤 | 鈴木 | 高橋 | 田中 | 渡辺 | 伊藤 | 山本 | 中村 | 小林 | 加藤 | 𠮷田 | 齋藤 | 月島 | 星野
""")

JA_GIVEN = _entries("""
あおい | みどり | さくら | はると | ゆい | そら | ひなた | りん | 陽翔 | 結衣 | 蓮 | 美咲 | 大和
千尋 | ユキ | ナナ | レイ | カイト | ミナミ | ハル | ﾐｸ | ﾓﾓ | まるもち | しろくま | ねこまる
たぬき | うどん | 抹茶 | あんこ | こはく
""")

EN_NAMES = _entries("""
alice | Bob | carol | Dave | Eve Marlowe | frank | Grace | heidi | Ivan | Judy Lin | mallory | Niaj
olivia | Peggy | Rupert | sybil | Trent | Victor | Wendy | zoë | Łukasz | François | ＡＢＣ
Ｍｉｋａ
""")

KO_NAMES = _entries("""
민준 | 서연 | 지우 | 하은 | 도윤 | 고양이집사
""")

WORKS = _entries("""
エンジニア | 学生 | イラストレーター | 猫の下僕 | 会社員 | photographer | developer | 旅人
図書館員
""")

PLACES = _entries("""
広場 | 部屋 | 研究会 | 同好会 | カフェ | 倶楽部 | Lab | Club | の集い | 雑談所 | 写真館 | 放送局
""")

EN_TAILS = _entries("""
_ | _ | _ | _today | _after all these years | , honestly | _and I love it | _somehow
_– photos later | , ask me anything | _(again) | _before breakfast | _in Tokyo | _with friends
; what about yours?
""")

NAME_TAILS = _entries("""
_ | _ | _ | _ | 🐾 | ✨ | @がんばらない | （休憩中） | _🌸 | bot | _dev | ２号 | 👨‍👩‍👧
""")
