"""Why a commit is malformed, and what it is counted as: two closed lists, for metrics and dead letters."""

from enum import StrEnum


class MalformedKind(StrEnum):
    """What a malformed commit is counted as (the ``kind`` of ``crawler_replication_malformed_total``)."""

    COMMIT = "commit"
    PROFILE = "profile"
    COMMUNITY = "community"
    POST = "post"
    DELETE = "delete"
    ACK = "ack"


class Reason(StrEnum):
    """Why a commit is malformed: a closed list."""

    ROW_NOT_JSON = "row_not_json"
    ROW_NOT_OBJECT = "row_not_object"
    NO_DOCUMENT = "no_document"
    DOCUMENT_NOT_STRING = "document_not_string"
    DOCUMENT_NOT_JSON = "document_not_json"
    DOCUMENT_NOT_OBJECT = "document_not_object"
    DOCUMENT_TOO_DEEP = "document_too_deep"
    DOCUMENT_WITH_NUL = "document_with_nul"
    NO_KIND = "no_kind"
    MALFORMED_KIND = "malformed_kind"
    NO_AUTHOR = "no_author"
    MALFORMED_AUTHOR = "malformed_author"
    NO_SCHEMA = "no_schema"
    MALFORMED_SCHEMA = "malformed_schema"
    NO_CREATED_AT = "no_created_at"
    MALFORMED_CREATED_AT = "malformed_created_at"
    DATE_OUT_OF_RANGE = "date_out_of_range"
    FUTURE_DATE = "future_date"
    NO_KEY = "no_key"
    MALFORMED_KEY = "malformed_key"
    KEY_WITHOUT_PATH = "key_without_path"
    KEY_TOO_LONG = "key_too_long"
    VALUE_NOT_OBJECT = "value_not_object"
    NO_TARGET = "no_target"
    MALFORMED_TARGET = "malformed_target"
    ACK_WITH_KEY = "ack_with_key"
    MALFORMED_ASSOCIATE = "malformed_associate"
    MALFORMED_DOMAIN = "malformed_domain"
    COMMUNITY_OF_A_PERSON = "community_of_a_person"
    """Given by planning, not here: a community's owner has to be a domain."""
    NOT_STORABLE = "not_storable"
    """Given by the writer of pages, not here: the database refuses the row for what it holds."""
