"""The accounts of a task on both sides, and what differs.

An account is of a task if it has a privilege on its schemas (`reading.py`) or is the definer of one of its objects.
Those of the system, the administrator's and dm's own are of none. An account and its privileges are two entries: the
account is created before the objects that name it as their definer, its privileges after the objects that they are on.

What the target has is never taken away. So an account with more privileges there than at the sources is different.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from dm.mysql.dialect import Dialect
from dm.session.state import USUAL_MODE
from dm.sourcelog.upstream.privilege import pattern_matches
from dm.tools.objects.accounts.adapted import (
    BothServers,
    RoutedObjects,
    WantedAccount,
    defaulting,
    giving_role,
    granting,
    shown,
    wanted_account,
)
from dm.tools.objects.accounts.reading import AccountReader
from dm.tools.objects.accounts.statement import AccountNotUnderstood
from dm.tools.objects.accounts.stored import Login, Privilege, StoredAccount
from dm.tools.objects.reading import StoredObjectReader, reader_at
from dm.tools.objects.stored import Account
from dm.tools.objects.survey import SideOfSource

Kind = Literal["account", "role", "grant"]
State = Literal["equal", "different", "missing", "refused", "created", "only at the target"]
_STRANGE: Final = "the server tells it in words that dm does not understand"


class Gift(NamedTuple):
    """A statement that gives privileges, and those that give each of them alone."""

    statement: str
    single: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedAccount:
    """An account or role, or the privileges of one."""

    kind: Kind
    name: str  # at the target
    state: State
    sources: tuple[str, ...] = ()
    wanted: WantedAccount | None = None
    there: StoredAccount | None = None
    why: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    gifts: tuple[Gift, ...] = ()  # what is missing, of a grant


def accounts_of(sides: Iterable[SideOfSource], there: StoredObjectReader) -> tuple[list[ComparedAccount], list[str]]:
    """The accounts of a task on both sides, and what concerns whole servers; raises DMError."""
    target, found, schemas = AccountReader(there), list[AccountsOfSource](), set[str]()
    plugins = target.plugins
    for side in sides:
        subtask = side.subtask
        place = RoutedObjects(side.places, frozenset(each.source.name for each in side.objects))
        definers = {each.definer for each in side.objects if each.definer is not None}
        schemas |= {each for schema in side.places.schemas for each in place.targets(schema)}
        with reader_at(subtask.source.endpoint, f"source {subtask.source_id}") as reader:
            servers = BothServers(reader.facts.dialect, there.facts.dialect, plugins)
            found.append(of_source(subtask.source_id, AccountReader(reader), place, definers, servers))
    remarks = [remark for each in found for remark in each.remarks]
    remarks += _everywhere(found, frozenset() if target.unreadable else frozenset(target.names()))
    return compared(found, target, schemas, there.facts.dialect), remarks


def lacking_accounts(source: StoredObjectReader, target: StoredObjectReader, schemas: Collection[str]) -> list[Account]:
    """The accounts of one source that the target lacks, by their privileges; none where one of them can't be read."""
    ours, theirs = AccountReader(source), AccountReader(target)
    if ours.unreadable or theirs.unreadable:
        return []
    known = ours.names()
    mine = (ours.with_roles(ours.on_schemas(schemas)) & known.keys()) - {ours.itself}
    there = {_logging_in(each, role=role) for each, role in theirs.names().items()}
    return sorted(each for each in mine if _logging_in(each, role=known[each]) not in there)


def _logging_in(account: Account, *, role: bool) -> Account:
    """A role has a host with some servers only."""
    return Account(account.user, "") if role else account


def _everywhere(found: Iterable[AccountsOfSource], there: Collection[Account]) -> Iterator[str]:
    """What is said of accounts that run the servers."""
    for each in found:
        if each.everywhere:
            says = f"{each.source}: not of this task, since their privileges are on *.* or on other schemas: "
            says += ", ".join(map(str, each.everywhere))
            lacking = [str(one) for one in each.everywhere if one not in there] if there else []
            yield says + (f"; the target lacks {', '.join(lacking)}" if lacking else "")


@dataclass(frozen=True, slots=True)
class AccountsOfSource:
    """What one source has."""

    source: str
    wanted: tuple[WantedAccount, ...] = ()
    remarks: tuple[str, ...] = ()
    unreadable: str = ""
    strange: tuple[str, ...] = ()  # accounts that were not understood
    everywhere: tuple[Account, ...] = ()  # those of the server, which are not brought


def of_source(
    source: str, reader: AccountReader, place: RoutedObjects, definers: Collection[Account], servers: BothServers
) -> AccountsOfSource:
    """The accounts of a task at a source, as the target is to have them; raises DMError."""
    lacks = reader.unreadable
    if lacks:
        return AccountsOfSource(source, unreadable=lacks)
    known = reader.names()
    on_schemas = reader.on_schemas(list(place.names.schemas))
    mine = reader.with_roles({each for each in known if each in on_schemas or each in definers})
    mine = (mine & known.keys()) - {reader.itself}
    found, strange = list[WantedAccount](), list[str]()
    for name in sorted(mine):
        try:
            stored = reader.read(name, role=known[name])
        except AccountNotUnderstood:
            strange.append(str(name))
            continue
        if stored is not None:
            found.append(wanted_account(stored, servers, place))
    remarks = []
    others = tuple(each for each in reader.everywhere() if each not in mine and each != reader.itself)
    if any(each.user == "PUBLIC" for each in on_schemas):
        remarks.append(f"{source}: what PUBLIC may do there is not brought")
    return AccountsOfSource(source, tuple(found), tuple(remarks), strange=tuple(strange), everywhere=others)


def compared(
    sides: Collection[AccountsOfSource], target: AccountReader, schemas: Collection[str], server: Dialect
) -> list[ComparedAccount]:
    """All of them on both sides; raises DMError."""
    lacks = target.unreadable
    found = [_unread("account", "*", each.unreadable, (each.source,)) for each in sides if each.unreadable]
    if lacks:
        return [*found, _unread("account", "*", lacks, ())]
    found += [
        ComparedAccount("account", name, "refused", (each.source,), why=(_STRANGE,))
        for each in sides
        for name in each.strange
    ]
    known, every, ours = target.names(), target.every_privilege, target.on_schemas(schemas)
    merged = list(_merged(sides))
    for one in merged:
        assert one.wanted is not None
        name = one.wanted.name
        try:
            there = target.read(name, role=known[name]) if name in known else None
        except AccountNotUnderstood:
            found.append(replace(one, state="refused", why=(_STRANGE,)))
            continue
        found += [_account(one, there), *_grants(one, there, _Target(server, every, schemas, ours))]
    mine = {one.wanted.name for one in merged if one.wanted is not None}
    left = (ours & known.keys()) - {target.itself} - mine
    return found + [
        ComparedAccount("role" if known[each] else "account", str(each), "only at the target") for each in sorted(left)
    ]


@dataclass(frozen=True, slots=True)
class _Target:
    """What privileges at the target are compared by."""

    server: Dialect
    every: Collection[str]  # what ALL PRIVILEGES ON *.* is printed as; empty where by these words
    schemas: Collection[str]  # of the task
    accounts: Collection[Account]  # with a privilege on them

    def concerns(self, privilege: Privilege) -> bool:
        """Whether a privilege is on the task's schemas, or on all."""
        pattern = privilege.schema
        if privilege.name or not pattern:
            return not pattern or pattern in self.schemas
        return any(pattern == schema or pattern_matches(pattern, schema) for schema in self.schemas)


def _unread(kind: Kind, name: str, statement: str, sources: tuple[str, ...]) -> ComparedAccount:
    who = f"the account of {', '.join(sources)}" if sources else "the target's account"
    return ComparedAccount(kind, name, "refused", sources, why=(f"{who} may not read accounts: {statement}",))


def _merged(sides: Iterable[AccountsOfSource]) -> Iterator[ComparedAccount]:
    """One of each: several sources may have it, if it logs in by the same; it has what any source gives it."""
    found = dict[Account, ComparedAccount]()
    for side in sides:
        for wanted in side.wanted:
            other = found.get(wanted.name)
            if other is None or other.wanted is None:
                kind: Kind = "role" if wanted.role else "account"
                found[wanted.name] = ComparedAccount(kind, str(wanted.name), "missing", (side.source,), wanted)
                continue
            sources, known = (*other.sources, side.source), other.wanted
            same = (known.statement, known.obstacle) == (wanted.statement, wanted.obstacle)
            why = f"{', '.join(sources)} have different ones, and there can be one at the target"
            found[wanted.name] = replace(
                other,
                sources=sources,
                why=other.why if same else (why,),
                wanted=replace(
                    known,
                    privileges=known.privileges | wanted.privileges,
                    roles={**known.roles, **wanted.roles},
                    default_roles=known.default_roles | wanted.default_roles,
                    left=tuple(dict.fromkeys((*known.left, *wanted.left))),
                    no_grants=known.no_grants or wanted.no_grants,
                ),
            )
    yield from found.values()


def _account(one: ComparedAccount, there: StoredAccount | None) -> ComparedAccount:
    wanted = one.wanted
    assert wanted is not None
    found = replace(one, there=there, findings=wanted.findings)
    if one.why:
        return replace(found, state="refused")
    if there is None:
        return replace(found, state="refused", why=(wanted.obstacle,)) if wanted.obstacle else found
    differing = [*_differing(wanted, there)]
    return replace(found, state="different" if differing else "equal", why=tuple(differing))


def _differing(wanted: WantedAccount, there: StoredAccount) -> Iterator[str]:
    if wanted.role != there.role:
        kinds = {True: "a role", False: "an account that logs in"}
        yield f"it is to be {kinds[wanted.role]}, and is {kinds[there.role]}"
        return
    if not wanted.own_password and not wanted.role:
        if [each.plugin for each in wanted.logins or there.logins] != [each.plugin for each in there.logins]:
            yield f"it is to log in by {_plugins(wanted.logins)}, and logs in by {_plugins(there.logins)}"
        elif any(each.secret for each in there.logins) and not any(each.secret for each in wanted.logins):
            yield "it has a password, and has none at the source"
        elif wanted.logins and wanted.logins != there.logins:
            yield "its password is another one, or was set anew"
    for key in sorted({*wanted.clauses, *there.clauses}):
        ours, theirs = wanted.clauses.get(key), there.clauses.get(key)
        if ours != theirs:
            yield f"{ours or f'no {key}'} is to be, and {theirs or f'no {key}'} is"


def _plugins(logins: Iterable[Login]) -> str:
    return ", ".join(each.plugin for each in logins)


def _grants(one: ComparedAccount, there: StoredAccount | None, target: _Target) -> Iterator[ComparedAccount]:
    wanted, has = one.wanted, StoredAccount(Account("", "")) if there is None else there
    assert wanted is not None
    found = replace(one, kind="grant", state="equal", there=there, why=(), findings=wanted.left)
    obstacle = wanted.no_grants or ("the account has to be there first" if there is None and _refused(one) else "")
    if obstacle:
        yield replace(found, state="refused", why=(obstacle,))
        return
    every = _expanded(wanted.privileges, target.every)
    missing, more = _lacking(every, has.privileges), _lacking(has.privileges, every)
    roles = {role: admin for role, admin in sorted(wanted.roles.items()) if not _holds(has, role, admin)}
    default = wanted.default_roles - has.default_roles
    extra = sorted((has.roles.keys() - wanted.roles.keys()) & {*target.accounts})
    lacking = [f"it lacks {shown(each)}" for each in missing] + [f"it lacks the role {role}" for role in roles]
    lacking += [f"it lacks the default role {role}" for role in sorted(default)]
    above = [f"it has {shown(each)}, which no source gives it" for each in more if target.concerns(each)]
    above += [f"it has the role {role}, which no source gives it" for role in extra]
    if lacking:
        gifts = [*_gifts(_narrowed(missing, wanted.privileges, target.every), wanted.name)]
        gifts += [Gift(giving_role(role, wanted.name, admin=admin)) for role, admin in roles.items()]
        if default:
            gifts.append(Gift(defaulting(wanted.default_roles, wanted.name, target.server)))
        yield replace(found, state="missing", why=(*lacking, *above), gifts=tuple(gifts))
    elif wanted.privileges or wanted.roles or above or wanted.left:
        yield replace(found, state="different" if above else "equal", why=tuple(above))


def _refused(one: ComparedAccount) -> bool:
    return bool(one.why or (one.wanted is not None and one.wanted.obstacle))


def _gifts(privileges: Collection[Privilege], account: Account) -> Iterator[Gift]:
    """One for each place."""
    found = dict[Privilege, list[Privilege]]()
    for each in sorted(privileges):
        found.setdefault(each.place, []).append(each)
    for group in found.values():
        single = tuple(granting([each], account) for each in group) if len(group) > 1 else ()
        yield Gift(granting(group, account), single)


def _holds(there: StoredAccount, role: Account, admin: object) -> bool:
    return role in there.roles and (there.roles[role] or not admin)


def _expanded(privileges: Collection[Privilege], every: Collection[str]) -> set[Privilege]:
    """ALL PRIVILEGES ON *.* as the target would print it."""
    found = set[Privilege]()
    for each in privileges:
        whole = each.word == "ALL PRIVILEGES" and not each.schema and every
        found |= {each._replace(word=word) for word in every} if whole else {each}
    return found


def _narrowed(missing: Collection[Privilege], wanted: Collection[Privilege], every: Collection[str]) -> set[Privilege]:
    """What is missing, as ALL PRIVILEGES where the account is to have all: some of the words can't be given."""
    whole = {each for each in wanted if each.word == "ALL PRIVILEGES" and not each.schema}
    return {next(iter(whole)) if whole and not each.schema and each.word in every else each for each in missing}


def _lacking(wanted: Collection[Privilege], has: Collection[Privilege]) -> list[Privilege]:
    """What is wanted and not there: a privilege that may be passed on is there without that, too."""
    known = {*has, *(each._replace(grantable=False) for each in has)}
    all_on = {each.place._replace(grantable=False) for each in has if each.word == "ALL PRIVILEGES"}
    return sorted(
        each
        for each in wanted
        if each not in known
        and not (each.place._replace(grantable=False) in all_on and not each.grantable and not each.column)
        and not (each.word == "USAGE" and any(own.place == each.place for own in has))
    )


def giving_mode(server: Dialect) -> dict[str, str]:
    """The session in which privileges are given: a GRANT makes no account.

    Without NO_AUTO_CREATE_USER older servers and MariaDB make one that nobody needs a password for.
    """
    mode = "NO_AUTO_CREATE_USER"
    return {} if mode in server.forgotten_modes else {"sql_mode": f"{USUAL_MODE},{mode}"}


def created_account(one: ComparedAccount, run: Callable[[bytes], str]) -> ComparedAccount:
    """Create an account; `run` gives the server's words against a statement."""
    assert one.wanted is not None
    words = run(one.wanted.statement)
    # A syntax error repeats what it did not understand, which may be a hash.
    words = words.partition(" near ")[0]
    return replace(one, state="refused", why=(words,)) if words else replace(one, state="created")


def given_privileges(one: ComparedAccount, run: Callable[[bytes], str]) -> ComparedAccount:
    """Give what is missing: where a server refuses several privileges together, each by itself."""
    assert one.wanted is not None
    refused = list[str]()
    for gift in one.gifts:
        words = run(in_bytes(gift.statement))
        if words and gift.single:
            refused += [f"{each}: {words}" for each in gift.single if (words := run(in_bytes(each)))]
        elif words:
            refused.append(f"{gift.statement}: {words}")
    if refused:
        return replace(one, state="refused", why=tuple(refused))
    return replace(one, state="created", why=())


def in_bytes(statement: str) -> bytes:
    """A statement on its way to the server, whose names may be bytes that are no text."""
    return statement.encode("utf-8", "surrogateescape")
