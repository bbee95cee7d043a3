"""What two servers have in common, mostly a source and its target."""

from __future__ import annotations

from dm.mysql.dialect import Flavor, dialect


def same_server(one: Flavor, other: Flavor) -> bool:
    """Whether both are the same product."""
    return one == other


def same_family(one: Flavor, other: Flavor) -> bool:
    """Whether both speak one dialect: a TiDB speaks MySQL's."""
    return dialect(one).family == dialect(other).family


def both_of_mysql(source: Flavor, target: Flavor) -> bool:
    """Whether utf8mb4 alone can mean the same in the sessions of both (default_collation_for_utf8mb4)."""
    return dialect(source).family == dialect(target).family == "mysql"


def both_choose_collations(source: Flavor, target: Flavor, version: int) -> bool:
    """Whether the target's sessions can have the source's character_set_collations."""
    return same_family(source, target) and dialect(target, version).chooses_collations


def both_skip_checks(source: Flavor, target: Flavor) -> bool:
    """Whether CHECKs mean the same at both, and rows can be written without a look at them."""
    return dialect(source).skips_checks and dialect(target).skips_checks


def loses_documents(source: Flavor, target: Flavor) -> bool:
    """Whether documents of the source are texts at the target."""
    return dialect(target).json_is_text and not dialect(source).json_is_text
