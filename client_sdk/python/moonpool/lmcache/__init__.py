"""LMCache's second level in Moonpool: the class that its ``native_plugin`` adapter loads.

::

    lmcache server ... --l2-adapter '{"type": "native_plugin",
        "module_path": "moonpool.lmcache", "class_name": "Connector",
        "adapter_params": {"masters": "10.0.0.1:7400",
                           "fingerprint": {"dtype": "bfloat16", "revision": "main"}}}'

docs/LMCACHE.md has the rest. LMCache itself is not imported here.
"""

from moonpool.lmcache.connector import Connector

__all__ = ["Connector"]
