"""The compiled parts, where there are any: one C extension that does what a loop here and there does in Python.

Everything is complete without it, in Python. Python is the reference: the compiled parts give the same answers or
decline, and then Python reads the same bytes. So they need no errors of their own, and a test holds one against the
other. They are built with the package where a C compiler is (`scripts/install.sh` says where not), and
DM_ACCELERATOR=off in the environment leaves them out.

Nothing loads an extension from inside a zip file, which is how the package comes to the workers of a cluster. There it
lies beside the archive (`dm.spark.session`), under the name that says for which Python and platform it is; others do
not find it.

An extension that is older or newer than the C files beside it (a checkout of another commit) knows other functions than
the Python around it calls, so it is left out, too, until it is built again.

- `switch`: which twin runs; nobody else looks at the environment.
- `native`: what the extension offers, as protocols; the classes whose fields C knows, and the proof that both sides
  know the same ones.
"""
