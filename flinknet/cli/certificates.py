"""`flinknet certificates`: a test set of certificates for TLS on the data port."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from flinknet.errors import ConfigError

from .commands import WholeNumber
from .option_tables import options


@click.command()
@options(
    """
    --out DIR required
        Directory for the files; created if needed.
    --password TEXT
        Password of the stores and the key. [default: random]
    --host NAME ...
        Name or address in the certificate; may be repeated. [default: localhost]
    --days N = 365
        How long the certificate is valid.
    """,
    days=WholeNumber(1, 36_500),
)
def certificates(out: str, password: str | None, host: tuple[str, ...], days: int) -> None:
    """Make a certificate authority, a node's certificate and key, and the stores that Flink reads.

    \b
    flinknet certificates --out certs
        for TaskManagers on this machine
    flinknet bench --flink-conf certs/config.yaml \\
        -D security.ssl.internal.enabled=false,true
        what TLS costs
    flinknet certificates --out certs --host tm1.example --host 10.0.0.7
        for TaskManagers on other machines
    flinknet trace tap … --tls-cert certs/node.pem --tls-key certs/node.pem \\
        --tls-ca certs/ca.pem --tls-password-file certs/password
        a tap between TaskManagers that use these files

    DIR/config.yaml has the Flink keys that turn TLS on with these stores, and their password. The
    password is never printed; the file DIR/password contains nothing else. DIR also has the key and
    the certificates as PEM. A Flink cluster can use the same config.yaml and stores.

    Use them for experiments only: all TaskManagers share one key, and the authority's own key is
    not kept.
    """
    import secrets

    from flinknet.certificates.stores import AUTHORITY_PEM, CONFIG, NODE_PEM, PASSWORD, generate
    from flinknet.config import HIDDEN
    from flinknet.options import find_option

    if password == "":
        raise ConfigError("--password: is empty; leave it out for a random one")
    directory = Path(out)
    settings = generate(
        directory, password or secrets.token_urlsafe(12), hosts=host or ("localhost",), days=days
    )
    for key, value in settings.items():
        click.echo(f"{key}: {HIDDEN if find_option(key).is_secret else value}")
    config = shlex.quote(str(directory / CONFIG))
    click.echo(f"keys: {config}, with the password", err=True)
    click.echo(f"PEM:  {directory / NODE_PEM} and {directory / AUTHORITY_PEM}", err=True)
    click.echo(f"password of the key: {directory / PASSWORD}", err=True)
    click.echo(
        f"next: flinknet bench --flink-conf {config} -D security.ssl.internal.enabled=false,true",
        err=True,
    )
