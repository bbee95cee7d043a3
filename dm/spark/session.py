"""The one Spark session of a task process: started when first needed, gone when the process is gone.

Problem: Spark's driver is a JVM beside our Python process. It must not outlive us, not even when we are SIGKILLed; it
must not write on our standard output, which carries the status lines of the unit host; and it must not learn a
password, because its configuration is shown in its UI, in its logs and in the process list.

Invariant: the JVM's standard input is a pipe whose only writing end is ours. Spark's gateway reads from it and exits
at its end (PythonGatewayServer.scala: "Exit on EOF or broken pipe to ensure that the gateway dies with the parent"),
and the kernel closes our end however we die. The Python workers hang on the JVM in the same way. PR_SET_PDEATHSIG
would be wrong here: it fires when the *thread* that forked ends, and units run in threads that come and go.

The gateway reads only once it has told its port, and where it can't (the next host has removed the directory meanwhile)
its main thread dies and another one keeps the JVM. So a guard, a few lines of shell, hangs on us by a pipe of the same
kind and ends the process group that it shares with the JVM, whatever that is at.

So the JVM is started here and not by pyspark, which gives no way to wait for it and no file for what it prints;
pyspark only connects to it (the PYSPARK_GATEWAY_* variables, as spark-submit itself does it).

Also a local master listens on ports, which every user of the machine reaches: the driver's RPC and its block manager,
which gives away whatever a job has. So on this machine each session has a secret of its own, without which they answer
nothing, whatever `conf` says. Of a cluster that is a setting of all its hosts; prechecks demand it.

Spark's session before there is work for it.

A JVM and its Python workers take some seconds to start, and so do the checks of a task before its first unit runs. This
unit lets both happen at once. It has no work of its own: it starts the session that the process's other units share,
and ends when one of them takes it, when it is stopped, or when nobody came for it. What it could not start, the unit
that needs it tries again, and says why.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import structlog

from dm.accelerator import switch
from dm.atomic_file import create_new
from dm.errors import DMError, said
from dm.spark import worker_daemon
from dm.spark.daemon_ahead import DaemonAhead
from dm.spark.java import archive_path, demand_java, find_java_home, java_options
from dm.unit import JSON, StopSignal, UnitName, told

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_START_SECONDS = 120
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss2m"
_GUARD = 'trap "" TERM; while read -r _; do :; done; kill -TERM 0; sleep 10; kill -KILL 0'
_LONGEST_SOCKET_DIRECTORY = 60  # Spark refuses more ("The directory path should be lower than 61")


def spark_configuration(
    master: str, conf: Mapping[str, str], scratch: Path, java_options: str = SMALL_JVM
) -> dict[str, str]:
    """Our defaults for a task's session, and the user's own settings over them."""
    settings = {
        "spark.app.name": "dm",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.python.use.daemon": "true",
        "spark.executorEnv.PYTHONHASHSEED": "0",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": java_options,
            "spark.local.dir": str(scratch),  # of all hosts, so not for a cluster
        }
        if "spark.python.unix.domain.socket.dir" not in conf and _takes_sockets(scratch):
            # The JVM and its workers write to each other in small pieces. Over TCP each waits up to 40 ms for the other
            # side's acknowledgement, at the beginning of every task.
            settings |= {
                "spark.python.unix.domain.socket.enabled": "true",
                "spark.python.unix.domain.socket.dir": str(scratch.resolve()),
            }
    fixed = {"spark.master": master, "spark.speculation": "false"}
    if master.startswith("local"):
        fixed |= {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
        fixed["spark.network.crypto.saslFallback"] = "false"
        if master.startswith("local-cluster"):  # of other local masters Spark makes the secret (SecurityManager.scala)
            fixed["spark.authenticate.secret"] = secrets.token_hex(32)
    return settings | {str(key): str(value) for key, value in conf.items()} | fixed


def _takes_sockets(directory: Path) -> bool:
    """Whether Spark makes its sockets in a directory: paths have to be short, and not every file system has them."""
    place = os.fsencode(directory.resolve())
    if len(place) > _LONGEST_SOCKET_DIRECTORY:
        return False
    path = os.path.join(place, f".{uuid.uuid4()}.sock".encode())  # as Spark names them
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.bind(path)
        os.unlink(path)
    except OSError:
        return False
    return True


class SparkProvider:
    """Gives the units of one process their common session; safe to call from any thread."""

    def __init__(
        self,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
        scratch: Path | None = None,
        *,
        driver_memory: str = "512m",
        java_home: str = "",
        python: str = "",
    ) -> None:
        self.master = master
        self.stop_seconds = 20.0  # a JVM that takes longer to end is killed
        self._conf = {"spark.driver.memory": driver_memory} | dict(conf or {})
        self._java_home = java_home
        self._python = python or sys.executable
        self._parent = scratch
        self._workers: DaemonAhead | None = None
        self._lock = threading.Lock()
        self._ending = threading.Event()  # a start that is under way is not waited for
        self._context: SparkContext | None = None
        self._jvm: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._gateway: JavaGateway | None = None
        self._scratch: Path | None = None

    def fork_workers_from(self, ahead: DaemonAhead | None) -> Self:
        """Have the first session's workers from this process, which was begun for it."""
        self._workers = ahead
        return self

    def context(self) -> SparkContext:
        """The running Spark context; started by the first call, and again when its JVM has died."""
        with self._lock:
            if self._context is not None and self._jvm is not None and self._jvm.poll() is not None:
                self._close()
            if self._context is None:
                try:
                    self._context = self._start()
                except BaseException:
                    self._close()
                    raise
            return self._context

    def session(self) -> SparkSession:
        """The same session with the SQL interface."""
        from pyspark.sql import SparkSession

        return SparkSession(self.context())

    @property
    def jvm_pid(self) -> int | None:
        """The process id of the JVM while there is one."""
        return None if self._jvm is None else self._jvm.pid

    def close(self) -> None:
        """Stop Spark and wait until its JVM is gone."""
        self._ending.set()
        with self._lock:
            self._close()
            self._ending.clear()

    @property
    def _local(self) -> bool:
        return self.master.startswith("local")

    def _start(self) -> SparkContext:
        if self._parent is not None:
            self._parent.mkdir(parents=True, exist_ok=True)
        self._scratch = Path(tempfile.mkdtemp(prefix="dm-spark-", dir=self._parent))
        workers = self._begin_workers(self._scratch)
        from pyspark.find_spark_home import _find_spark_home

        java_home = demand_java(self._java_home) if self._java_home else find_java_home(self._scratch)
        spark_home = Path(_find_spark_home())
        options = SMALL_JVM + java_options(archive_path(java_home, spark_home))
        settings = {**spark_configuration(self.master, self._conf, self._scratch, options), **workers}
        port, secret = self._launch(settings, java_home, spark_home)

        from py4j.protocol import Py4JError
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        try:
            with _environment(
                PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, PYSPARK_PYTHON=self._python
            ):
                gateway = self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
                configuration = SparkConf(_jvm=gateway.jvm).setAll(list(settings.items()))
                context = SparkContext(gateway=gateway, conf=configuration)
            if not self._local:
                context.addPyFile(str(_package_archive(self._scratch)))
                library = switch.library()
                if library is not None:
                    context.addFile(library)  # beside the archive, where it is looked for
        except (Py4JError, OSError) as error:
            raise DMError("spark-start-failed", master=self.master, cause=self._last_words(said(error))) from error
        return context

    def _begin_workers(self, scratch: Path) -> Mapping[str, str]:
        """Have what the workers are forked from begin beside the JVM, where it can; the settings for it."""
        if self._workers is None:
            return {}
        if not self._local or self._python != sys.executable:
            self._workers.close()
            return {}
        return worker_daemon.begun(self._conf, self._workers, scratch)

    def _launch(self, settings: Mapping[str, str], java_home: Path, spark_home: Path) -> tuple[int, str]:
        """Start the JVM with Spark's gateway in it; gives the gateway's port and secret."""
        assert self._scratch is not None
        answer = self._scratch / "gateway"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
        environment |= {
            "JAVA_HOME": str(java_home),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
            "PYSPARK_PYTHON": self._python,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_package_root()), os.environ.get("PYTHONPATH", "")])),
        }
        if self._local:
            # Else Spark asks for the address of this host's name as it starts, and many a host and container has none.
            environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
        else:
            environment["SPARK_LOCAL_DIRS"] = str(self._scratch)  # of this host; executors have their own
        # A file and not `--conf`: settings may hold secrets (an object store's), arguments are in the process list.
        properties = self._scratch / "spark.properties"
        with os.fdopen(create_new(properties), "w", encoding="utf-8") as file:
            file.writelines(map(_property_line, settings.items()))
        command = [str(spark_home / "bin" / "spark-submit"), "--properties-file", str(properties)]
        # A group of their own: a Ctrl-C at the terminal is ours to handle, not Spark's.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # ours has to end with us
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        with (self._scratch / "spark.log").open("wb") as log:
            self._jvm = subprocess.Popen(
                [*command, "pyspark-shell"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                process_group=self._guard.pid,
            )
        # spark-submit renames the file into place when it is complete (PythonGatewayServer.scala).
        deadline = time.monotonic() + _START_SECONDS
        while not answer.exists():
            try:
                self._jvm.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline and not self._ending.is_set():
                    continue
                self._jvm.terminate()  # before it reads from us it does not notice that we are gone
            raise DMError("spark-start-failed", master=self.master, cause=self._last_words(""))
        content = answer.read_bytes()
        port, size = struct.unpack(">ii", content[:8])
        return port, content[8 : 8 + size].decode()

    def _last_words(self, fallback: str) -> str:
        log = None if self._scratch is None else self._scratch / "spark.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log is not None and log.exists() else ""
        lines = [line for line in text.splitlines() if line.strip()]
        return "\n".join([*lines[-20:], fallback]).strip()

    def _close(self) -> None:
        context, self._context = self._context, None
        jvm, self._jvm = self._jvm, None
        guard, self._guard = self._guard, None
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            from py4j.protocol import Py4JError
            from pyspark import SparkContext

            try:
                if context is not None and jvm is not None and jvm.poll() is None:
                    context.stop()
            except (Py4JError, OSError):
                pass  # the JVM went away first; nothing of it is left to stop
            gateway.shutdown()
            # pyspark keeps the gateway in class attributes, for one JVM per process; the next session gets a new one.
            # It is there, too, where the context did not come to be.
            if SparkContext._gateway is gateway:
                SparkContext._gateway = None
                SparkContext._jvm = None
                SparkContext._active_spark_context = None
        if jvm is not None:
            if jvm.stdin is not None:
                jvm.stdin.close()
            try:
                jvm.wait(timeout=self.stop_seconds)
            except subprocess.TimeoutExpired:
                jvm.kill()
                jvm.wait()
        if guard is not None:
            guard.kill()
            guard.communicate()
        if self._workers is not None:
            self._workers.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


def _property_line(setting: tuple[str, str]) -> str:
    """One line of a Java properties file (java.util.Properties, "load")."""

    def escaped(text: str) -> str:
        return "".join(
            character if character.isalnum() or character in "._-" else f"\\u{ord(character):04x}" for character in text
        )

    key, value = setting
    return f"{escaped(key)}={escaped(value)}\n"


def _package_root() -> Path:
    return Path(__file__).resolve().parents[2]


def _package_archive(scratch: Path) -> Path:
    """This package as a zip file, for executors on other hosts."""
    archive = scratch / f"dm-{uuid.uuid4().hex}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for source in sorted((_package_root() / "dm").rglob("*.py")):
            packed.write(source, source.relative_to(_package_root()))
    return archive


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables of this process for a moment: pyspark takes the gateway's address from nowhere else."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_UNUSED_SECONDS: Final = 60.0


def _nothing(_: int) -> None:
    """What a worker does to be there."""


def warm_up(context: SparkContext) -> None:
    """Have the Python workers started, as many as work at once."""
    workers = context.defaultParallelism
    context.parallelize(range(workers), workers).foreach(_nothing)


class HeadStart:
    """Starts the session; `taken` is set when another unit of the process has it."""

    name: UnitName = "Spark"

    def __init__(self, spark: SparkProvider, taken: StopSignal, unused_seconds: float = _UNUSED_SECONDS) -> None:
        self._spark = spark
        self._taken = taken
        self._unused_seconds = unused_seconds
        self._over = threading.Event()
        self._failure: BaseException | None = None

    def status(self) -> Mapping[str, JSON]:
        """Nothing: nobody asks for it."""
        return {}

    def run(self, stop: threading.Event) -> None:
        """Start the session; raises what kept it from starting, if nobody has come for it yet."""
        # A start can't be interrupted, only ended with the session, by whoever closes the provider. So it is not waited
        # for where the unit has to come to rest.
        threading.Thread(target=self._start, name="spark head start", daemon=True).start()
        with told(stop, self._over.set), told(self._taken, self._over.set):
            self._over.wait()
        if self._failure is not None and not self._taken.is_set() and not stop.is_set():
            raise self._failure

    def _start(self) -> None:
        try:
            warm_up(self._spark.context())
            self._over.wait(self._unused_seconds)
        except BaseException as error:  # carried to the unit's thread
            structlog.get_logger().info("no head start of Spark", error=error)
            self._failure = error
        self._over.set()
