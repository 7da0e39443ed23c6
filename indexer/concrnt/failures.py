"""How asking another server can fail: a closed list (the failure classes of following), and one error."""

from enum import StrEnum


class FailureClass(StrEnum):
    """What kept a request from an answer. ``rate_limited`` is no failure of the server."""

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    RATE_LIMITED = "rate_limited"
    REDIRECT = "redirect"
    BAD_PAYLOAD = "bad_payload"
    TOO_LARGE = "too_large"
    BLOCKED_ADDRESS = "blocked_address"


class PeerError(Exception):
    """A request to another server that brought no usable answer.

    Attributes:
        failure: the class.
        detail: one line for the operator, without the stranger's content.
        status: the HTTP status, where there was one.
        retry_after: seconds that the server asks us to wait (429 and 503), at most an hour; None if it does
            not.
        location: of a redirect that was not followed, where it leads to; a stranger's text, at most 2,048
            characters.

    """

    def __init__(
        self,
        failure: FailureClass,
        detail: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        location: str | None = None,
    ) -> None:
        super().__init__(f"{failure.value}: {detail}")
        self.failure = failure
        self.detail = detail
        self.status = status
        self.retry_after = retry_after
        self.location = location
