"""Ends of interpreters, forks and threads: each in a process of its own, which must end well."""

import types

import pytest
from pool import Master, Node
from process import run


@pytest.fixture
def mortal():
    """A pool whose only node, the process `node`, a script may kill."""
    with Master() as master, Node(master.address, "mortal") as node:
        yield types.SimpleNamespace(master=master.address, node=node.process.pid)


def test_objects_may_outlive_the_interpreter(pool):
    out = run(pool, """
        client = moonpool.Client(master, namespace="exit", fingerprint="t")
        client.put("k", b"value")
        view = client.get_view("k")
        pieces = view.pieces
        buffer = moonpool.HostBuffer(4096)
        class Last:
            def __del__(self):
                print("still", client.get("k"))
        last = Last()
        sys.modules["kept"] = [client, view, pieces, buffer, last]
    """).stdout
    assert out in ("still b'value'\n", "")


@pytest.mark.parametrize("is_daemon", [True, False])
def test_threads_may_be_in_calls_at_the_end(pool, is_daemon):
    run(pool, f"""
        client = moonpool.Client(master, namespace="threads", fingerprint="t")
        client.put("k", bytes(1 << 20))
        begun = threading.Barrier(5)
        ends = threading.Event()
        def read():
            into = bytearray(1 << 20)
            begun.wait()
            while not ends.is_set():
                client.get_into("k", into)
                client.get("k")
        threads = [threading.Thread(target=read, daemon={is_daemon}) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        if not {is_daemon}:
            ends.set()
    """)


def test_python_code_may_run_in_a_call_at_the_end(pool):
    """CPython ends the thread inside of it, by unwinding through our frames."""
    run(pool, """
        client = moonpool.Client(master, namespace="slow", fingerprint="t")
        client.put("k", b"value")
        begun = threading.Event()
        class Keys(list):
            def __len__(self):
                return 1 << 20
            def __iter__(self):
                while True:
                    begun.set()
                    yield "k"
        def read():
            client.get_many(Keys())
        threads = [threading.Thread(target=read, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun.wait()
    """)


def test_a_fork_after_the_import_is_fine(pool):
    out = run(pool, """
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            with moonpool.Client(master, namespace="fork", fingerprint="t") as own:
                own.put("k", b"value")
                os.write(write, own.get("k"))
            sys.exit(0)
        os.close(write)
        assert os.waitpid(child, 0)[1] == 0
        print(os.read(read, 1000).decode())
        with moonpool.Client(master, namespace="fork") as client:
            print(client.get("k").decode())
    """).stdout
    assert out == "value\nvalue\n"


def test_a_forked_child_leaves_the_clients_of_its_parent_alone(pool):
    out = run(pool, """
        client = moonpool.Client(master, namespace="fork2", fingerprint="t")
        client.put("k", b"value")
        view = client.get_view("k")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = [str(client.closed)]
            for call in (lambda: client.get("k"), lambda: moonpool.Client(master)):
                try:
                    call()
                except moonpool.FailedPrecondition as error:
                    said.append(error.message)
            client.close()
            view.release()
            os.write(write, ";".join(said).encode())
            sys.exit(0)
        os.close(write)
        assert os.waitpid(child, 0)[1] == 0
        print(os.read(read, 1000).decode())
        assert view.valid and bytes(view.pieces[0]) == b"value"
        assert client.get("k") == b"value"
    """).stdout
    assert out == ("True;the client was made before this process was forked;"
                   "this process was forked from one that had made a client\n")


def test_a_fork_while_other_threads_are_in_calls(pool):
    run(pool, """
        client = moonpool.Client(master, namespace="forks", fingerprint="t")
        client.put("k", bytes(1 << 16))
        ends = threading.Event()
        def read():
            while not ends.is_set():
                client.get("k")
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                del client
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        ends.set()
        for thread in threads:
            thread.join()
    """)


def test_many_threads_share_a_client(pool):
    out = run(pool, """
        client = moonpool.Client(master, namespace="many", fingerprint="t")
        wrong = []
        def work(number):
            for i in range(50):
                key, value = f"{number}-{i}", bytes([number]) * 1000
                client.put(key, value)
                if client.get(key) != value:
                    wrong.append(key)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(wrong, client.stats()["puts"])
    """).stdout
    assert out == "[] 800\n"


# What a node's death makes a client say: once, on whichever thread finds the path dead.
DIES = """
    import signal
    def die():
        os.kill(%d, signal.SIGKILL)
    def outcome(call, *arguments):
        try:
            return call(*arguments)
        except moonpool.MoonpoolError as error:
            return error
"""


def test_warnings_reach_their_function(mortal):
    out = run(mortal, DIES % mortal.node + """
    lines = []
    client = moonpool.Client(master, namespace="warn", fingerprint="t", path="tcp",
                             on_warning=lines.append)
    client.put("k", b"1")
    client.get("k")
    die()
    while not lines:
        outcome(client.get, "k")
    print(lines[0])
    """).stdout
    assert "path to node failed" in out and "node=mortal" in out


def test_a_function_for_warnings_may_raise(mortal):
    done = run(mortal, DIES % mortal.node + """
    begun = threading.Event()
    def raises(line):
        begun.set()
        raise ValueError("as it likes")
    client = moonpool.Client(master, namespace="warn", fingerprint="t", path="tcp",
                             on_warning=raises)
    client.put("k", b"1")
    client.get("k")
    die()
    while not begun.is_set():
        outcome(client.get, "k")
    """)
    assert "Exception ignored in: <function raises" in done.stderr
    assert "ValueError: as it likes" in done.stderr


# Where the thread that warns is when the interpreter ends: in the function, or before it, asking
# for the lock, which the main thread gives up no more.
WARNED = {
    "inside": """
    def warned(line):
        begun.set()
        while True:
            pass
    """,
    "before": """
    def warned(line):
        pass
    """,
}
ENDS = {
    "inside": """
    begun.wait()
    """,
    "before": """
    sys.setswitchinterval(1)
    begin.set()
    sum(range(1_000_000))
    """,
}


@pytest.mark.parametrize("where", ["inside", "before"])
def test_a_thread_of_pythons_may_be_warning_at_the_end(mortal, where):
    run(mortal, DIES % mortal.node + WARNED[where] + """
    begin, begun = threading.Event(), threading.Event()
    client = moonpool.Client(master, namespace="warn", fingerprint="t", path="tcp",
                             on_warning=warned)
    client.put("k", b"1")
    client.get("k")
    def read():
        begin.wait()
        while True:
            outcome(client.get, "k")
    die()
    threading.Thread(target=read, daemon=True).start()
    """ + ENDS[where].replace("begun.wait()", "begin.set(); begun.wait()"))


@pytest.mark.parametrize("where", ["inside", "before"])
def test_a_thread_of_the_clients_may_be_warning_at_the_end(mortal, where):
    """It ends, and is not kept: the connector, which goes with the interpreter, waits for it."""
    run(mortal, DIES % mortal.node + WARNED[where] + """
    begin, begun = threading.Event(), threading.Event()
    connector = moonpool._native.Connector(masters=[master], namespace="warn", fingerprint="t",
                                           path="tcp", threads=1, on_warning=warned)
    into = bytearray(1)
    def batch(submit, *arguments):
        submit(*arguments)
        while not (drained := connector.drain_completions()):
            pass
        return drained[0][1]
    assert batch(connector.submit_batch_set, ["k"], [b"1"])
    assert batch(connector.submit_batch_get, ["k"], [into])
    die()
    for _ in range(100):
        connector.submit_batch_get(["k"], [into])
    sys.modules["kept"] = connector  # which goes for certain
    del connector
    """ + ENDS[where])


def test_all_who_close_a_connector_wait_for_its_threads(mortal):
    out = run(mortal, DIES % mortal.node + """
    begun, may_end, ended = threading.Event(), threading.Event(), []
    def warned(line):
        begun.set()
        may_end.wait()
        ended.append(True)
    connector = moonpool._native.Connector(masters=[master], namespace="close", fingerprint="t",
                                           path="tcp", threads=1, on_warning=warned)
    into = bytearray(1)
    def batch(submit, *arguments):
        submit(*arguments)
        while not connector.drain_completions():
            pass
    batch(connector.submit_batch_set, ["k"], [b"1"])
    batch(connector.submit_batch_get, ["k"], [into])
    assert connector.stats()["gets"]
    die()
    while not begun.is_set():
        connector.submit_batch_get(["k"], [into])
    first = threading.Thread(target=connector.close)
    first.start()
    while connector.stats()["gets"]:
        pass  # until the first is closing it
    sys.setswitchinterval(1000)  # from here nobody runs unless this thread waits
    may_end.set()
    connector.close()
    print(ended)
    first.join()
    """).stdout
    assert out == "[True]\n"


def test_a_view_may_be_released_while_its_pieces_are_made():
    """By what the collector runs; each piece that comes out holds the bytes all the same."""
    with (Master(["--stripe-size=1MiB"]) as master, Node(master.address, "one", "16MiB"),
          Node(master.address, "two", "16MiB")):
        run(types.SimpleNamespace(master=master.address), """
            import gc
            client = moonpool.Client(master, namespace="pieces", fingerprint="t")
            released = 0
            for collections in range(8):
                client.put("k", b"a" * (2 << 20))
                view, left = client.get_view("k"), collections
                def collecting(phase, info):
                    global left, released
                    left -= 1
                    if left < 0 and view.valid:
                        view.release()
                        released += 1
                gc.callbacks.append(collecting)
                gc.set_threshold(1)
                pieces = view.pieces
                gc.set_threshold(0)
                gc.callbacks.clear()
                view.release()
                assert len(pieces) == 2
                del pieces[0]
                for number in range(40):  # takes all that is not held
                    client.put(f"{collections}-{number}", b"b" * (1 << 20))
                assert bytes(pieces[0]) == b"a" * (1 << 20), collections
                client.remove("k")
            assert released
        """)


def test_a_closed_client_may_be_called_by_many(pool):
    """Each makes an error: Python code, in which another thread may be next, and call, too."""
    run(pool, """
        client = moonpool.Client(master, namespace="closed", fingerprint="t")
        client.close()
        def call():
            try:
                client.exists("k")
            except moonpool.FailedPrecondition:
                pass
        called = []
        def traced(frame, event, argument):
            if event == "call" and frame.f_code.co_name == "from_status":
                called.append(threading.Thread(target=call))
                called[0].start()
                called[0].join()
        sys.setprofile(traced)
        call()
        sys.setprofile(None)
        assert len(called) == 1
    """)


def test_a_property_may_be_read_at_the_end(pool):
    """What it makes sets the collector off, and so any Python code."""
    run(pool, """
        import gc
        client = moonpool.Client(master, namespace="gc", fingerprint="t")
        begun = threading.Event()
        def read():
            while True:
                kept.append(client.masters)
        def collecting(phase, info):
            if threading.current_thread() is reader:
                begun.set()
                while True:
                    pass
        kept = []
        reader = threading.Thread(target=read, daemon=True)
        gc.callbacks.append(collecting)
        gc.set_threshold(1)
        reader.start()
        begun.wait()
    """)
