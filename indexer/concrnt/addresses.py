"""Which addresses strangers' names may lead us to: ordinary public unicast ones, and no others."""

import ipaddress
from typing import Final

_GLOBAL_UNICAST_V6: Final = ipaddress.IPv6Network("2000::/3")
# Public by the registries' letter, and yet doors to other addresses or set aside since this Python was made.
_REFUSED_V6: Final = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/32",  # Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: holds an IPv4 address
        "3fff::/20",  # documentation
    )
)
_REFUSED_V4: Final = (
    ipaddress.IPv4Network("192.0.0.0/24"),  # protocol assignments
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays
)


def is_public_address(address: str) -> bool:
    """Tell whether a literal address is an ordinary public unicast address.

    Everything else is refused: loopback, private, link-local, shared (100.64/10), multicast, reserved,
    unspecified, documentation, and every IPv6 form that stands for an IPv4 address (mapped, compatible, 6to4,
    Teredo, NAT64).
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        # NAT64, mapped and compatible addresses, and all that is reserved, lie outside of 2000::/3.
        inside = parsed in _GLOBAL_UNICAST_V6 and not any(parsed in network for network in _REFUSED_V6)
    else:
        inside = not any(parsed in network for network in _REFUSED_V4)
    return inside and parsed.is_global and not parsed.is_multicast and not parsed.is_reserved
