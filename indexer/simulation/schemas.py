"""The schemas that the simulated network writes, by meaning."""

PROFILE = "https://schema.concrnt.world/p/main.json"
COMMUNITY = "https://schema.concrnt.world/t/community.json"
FOLLOW = "https://schema.concrnt.world/ack/follow.json"
REFERENCE = "https://schema.concrnt.net/reference.json"
ENTITY = "https://schema.concrnt.net/entity.json"
SUBKEY = "https://schema.concrnt.net/subkey.json"
REVOKED_SUBKEY = "https://schema.concrnt.net/revoked-subkey.json"
DELETE = "https://schema.concrnt.net/delete.json"

_POST = "https://schema.concrnt.world/m/"
MARKDOWN = f"{_POST}markdown.json"
REPLY = f"{_POST}reply.json"
REROUTE = f"{_POST}reroute.json"
PLAINTEXT = f"{_POST}plaintext.json"
MEDIA = f"{_POST}media.json"
GFM = f"{_POST}gfm.json"
MFM = f"{_POST}mfm.json"
CFM = f"{_POST}cfm.json"
POSTS = frozenset({MARKDOWN, REPLY, REROUTE, PLAINTEXT, MEDIA, GFM, MFM, CFM})

LIKE = "https://schema.concrnt.world/a/like.json"
REACTION = "https://schema.concrnt.world/a/reaction.json"
REPLY_ASSOCIATION = "https://schema.concrnt.world/a/reply.json"
REROUTE_ASSOCIATION = "https://schema.concrnt.world/a/reroute.json"

LIST = "https://schema.concrnt.world/utils/list.json"
"""A record that no index asks for: people's own lists of communities."""
