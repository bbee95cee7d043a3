"""The options of `dm-worker`, without what only the daemon imports: its manual is made where that is not installed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from dm.worker.home import HOME_OPTION
from dm.worker.installed import installed_version

DEFAULT_PREFIX: Final = "/dm-replicator/"  # of a cluster's keys in etcd


def parser() -> argparse.ArgumentParser:
    """What reads the options."""
    made = argparse.ArgumentParser(
        prog="dm-worker", description="Runs migration tasks on this machine; `dmctl` controls it. State: $DM_HOME."
    )
    token = "requests need a token (`dmctl token`)"
    reading = "requests need the token in $DM_HOME/metrics-token, or any other"
    made.add_argument(
        "--listen", metavar="HOST:PORT", help=f"listen there too, besides the socket in $DM_HOME; {token}"
    )
    made.add_argument(
        "--metrics-addr", metavar="HOST:PORT", help=f"a port for Prometheus that has /metrics alone; {reading}"
    )
    certificate = "the certificate of these ports, in PEM; without TLS they are loopback addresses"
    made.add_argument("--ssl-cert", metavar="FILE", type=Path, help=certificate)
    made.add_argument("--ssl-key", metavar="FILE", type=Path, help="the key of the certificate")
    made.add_argument(
        "--ssl-ca", metavar="FILE", type=Path, help="the CA of clients' certificates, which then do for a token"
    )
    _add_cluster(made)
    made.add_argument(HOME_OPTION, metavar="DIR", help="the directory of its state; else $DM_HOME, else ~/.dm")
    made.add_argument(
        "--secret-key-path", metavar="FILE", type=Path, help="the key of encrypted passwords; else $DM_HOME/secret-key"
    )
    made.add_argument("-L", "--log-level", metavar="LEVEL", help="debug, info, warn or error; kept for later starts")
    made.add_argument("--log-max-size", metavar="SIZE", help="size of a log file before the next one is begun [100M]")
    made.add_argument("--log-max-backups", metavar="N", help="how many full log files of a process are kept [5]")
    made.add_argument("--version", action="version", version=f"dm-worker {installed_version()}")
    return made


def _add_cluster(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--cluster", metavar="ENDPOINTS", help="be a member of the cluster in this etcd, as https://10.0.0.1:2379,.."
    )
    made.add_argument("--cluster-prefix", metavar="PREFIX", default=DEFAULT_PREFIX, help="of its keys [%(default)s]")
    made.add_argument("--cluster-user", metavar="NAME", default="", help="the user at etcd")
    made.add_argument("--cluster-password-file", metavar="FILE", type=Path, help="a file with that user's password")
    made.add_argument("--cluster-ca", metavar="FILE", type=Path, help="the CA of etcd's certificate, in PEM")
    made.add_argument("--cluster-cert", metavar="FILE", type=Path, help="what is shown to etcd")
    made.add_argument("--cluster-key", metavar="FILE", type=Path, help="the key of that certificate")
    made.add_argument("--name", metavar="NAME", help="what this member is called; else the host's name")
    made.add_argument(
        "--advertise-addr", metavar="HOST:PORT", help="where other members reach --listen; else as --listen has it"
    )
    made.add_argument("--labels", metavar="NAME=VALUE,..", default="", help="what `-w NAME=VALUE` finds this member by")
