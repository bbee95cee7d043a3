"""A CA of the test's own, and certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass
class Authority:
    """A CA; `file` is its certificate."""

    directory: Path
    name: str = "ca"
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.file = self.directory / f"{self.name}.pem"
        self.file.write_bytes(self._signed(self.name, self._key.public_key(), ca=True))

    def signed(self, common_name: str, *, addresses: tuple[str, ...] = (), file: str = "") -> tuple[Path, Path]:
        """A certificate with its key, as files."""
        key = ec.generate_private_key(ec.SECP256R1())
        paths = self.directory / f"{file or common_name}.pem", self.directory / f"{file or common_name}.key"
        paths[0].write_bytes(self._signed(common_name, key.public_key(), addresses=addresses))
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        paths[1].write_bytes(key.private_bytes(*form))
        paths[1].chmod(0o600)
        return paths

    def _signed(
        self, common_name: str, key: ec.EllipticCurvePublicKey, *, addresses: tuple[str, ...] = (), ca: bool = False
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]))
            .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, self.name)]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if addresses:
            names = [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
