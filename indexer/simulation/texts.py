"""What simulated people write: names, descriptions and posts, in several languages and scripts.

All text comes from the word lists below and a random source, so one seed always says the same. The mix
is meant to be awkward for a search engine: kanji next to kana, Latin words inside Japanese, full-width
and half-width forms, decomposed marks, family emoji joined by ZWJ, Korean, hashtags, links and code.
"""

from enum import StrEnum
from random import Random
from unicodedata import normalize

from indexer.simulation import words


class Language(StrEnum):
    """What a person mostly writes."""

    JAPANESE = "ja"
    ENGLISH = "en"
    MIXED = "mixed"
    EMOJI = "emoji"
    KOREAN = "ko"


LANGUAGE_SHARES = {
    Language.JAPANESE: 62,
    Language.ENGLISH: 17,
    Language.MIXED: 13,
    Language.EMOJI: 4,
    Language.KOREAN: 4,
}


class Writer:
    """Writes with one random source."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._pick = random.choice

    def language(self) -> Language:
        """Pick what a person writes."""
        return self._random.choices(tuple(LANGUAGE_SHARES), tuple(LANGUAGE_SHARES.values()))[0]

    # -- people and places -------------------------------------------------------------------------

    def person_name(self, language: Language) -> str:
        """Return the name that somebody shows."""
        if language is Language.KOREAN:
            return self._pick(words.KO_NAMES) + self._pick(words.NAME_TAILS)
        if language is Language.ENGLISH:
            return self._pick(words.EN_NAMES) + self._pick(words.NAME_TAILS)
        given = self._pick(words.JA_GIVEN)
        full = (
            f"{self._pick(words.JA_FAMILY)}{self._pick(('', ' ', '　'))}{given}"
            if self._chance(0.3)
            else given
        )
        return full + self._pick(words.NAME_TAILS)

    def self_description(self, language: Language) -> str:
        """Return what somebody says about themselves; often nothing."""
        if self._chance(0.25):
            return ""
        if language is Language.ENGLISH:
            return f"{self._pick(words.WORKS)}. {self.sentence(language)}"
        things = "、".join(self._random.sample(words.JA_THINGS, 3))
        return f"{self._pick(words.WORKS)}です。{things}が好き。{self.sentence(language)}"

    def community_name(self) -> str:
        """Return the name of a community."""
        thing = self._pick(words.TECH) if self._chance(0.2) else self._pick(words.JA_THINGS)
        name = thing + self._pick(words.PLACES)
        return normalize("NFD", name) if self._chance(0.05) else name

    def community_description(self) -> str:
        """Return what a community is for."""
        thing, subject = self._pick(words.JA_THINGS), self._pick(words.TECH)
        return f"{thing}について話すところです。{self.sentence(Language.JAPANESE)} All about {subject}."

    # -- posts -------------------------------------------------------------------------------------

    def sentence(self, language: Language) -> str:
        """Return one sentence."""
        if language is Language.MIXED:
            language = self._pick((Language.JAPANESE, Language.ENGLISH, Language.MIXED))
        if language is Language.JAPANESE:
            return self._japanese()
        if language is Language.ENGLISH:
            return (
                f"{self._pick(words.EN_SUBJECTS)} {self._pick(words.EN_VERBS)}{self._pick(words.EN_TAILS)}."
            )
        if language is Language.KOREAN:
            return self._pick(words.KO_SENTENCES)
        if language is Language.EMOJI:
            return "".join(self._random.choices(words.EMOJI, k=self._random.randint(1, 6)))
        subject, thing, does = self._pick(words.TECH), self._pick(words.JA_THINGS), self._pick(words.JA_DOES)
        return f"{subject}で{thing}{does} {self._pick(words.EMOJI)}"

    def body(self, language: Language) -> str:
        """Return the text of a post: one sentence or two, rarely a long one."""
        count = min(40, int(self._random.paretovariate(1.3)))
        text = self._pick(("", "", " ", "\n")).join(self.sentence(language) for _ in range(count))
        if self._chance(0.12):
            text += f" #{self._pick(words.TAGS)}"
        if self._chance(0.05):
            text += f"\nhttps://www.example.com/{self._random.getrandbits(24):x}?q={self._pick(words.TAGS)}"
        return text

    def markdown(self, language: Language) -> str:
        """Return a post with mark-up."""
        kind = self._random.randrange(4)
        first, second = self.body(language), self.sentence(language)
        if kind == 0:
            return f"# {second}\n\n{first}"
        if kind == 1:
            return f"- {first}\n- {second}\n- **{self._pick(words.TECH)}**"
        if kind == 2:
            return f"{first}\n\n```sql\nselect '{self._pick(words.TAGS)}' as tag\n```"
        return f"> {second}\n\n{first} <details>{self._pick(words.EMOJI)}</details>"

    def mfm(self, language: Language) -> str:
        """Return a post in Misskey's mark-up."""
        return f"$[tada {self._pick(words.EMOJI)}] {self.body(language)} $[x2 **{self.sentence(language)}**]"

    def emoji(self) -> str:
        """Return one emoji."""
        return self._pick(words.EMOJI)

    def _japanese(self) -> str:
        if self._chance(0.25):
            return self._pick(words.JA_ASIDES)
        when = f"{self._pick(words.JA_WHEN)}は" if self._chance(0.5) else ""
        end = self._pick(("。", "。", "！", "…", "w", self._pick(words.EMOJI)))
        return f"{when}{self._pick(words.JA_THINGS)}{self._pick(words.JA_DOES)}{end}"

    def _chance(self, share: float) -> bool:
        return self._random.random() < share
