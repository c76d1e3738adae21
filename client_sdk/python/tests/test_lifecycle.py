"""Ends of interpreters, forks and threads: each in a process of its own, which must end well."""

import subprocess
import sys
import textwrap

import pytest

SECONDS = 60


def run(pool, script):
    """Runs the script with `master` set; returns what it printed."""
    head = f"import moonpool, os, sys, threading\nmaster = {pool.master!r}\n"
    done = subprocess.run([sys.executable, "-X", "dev", "-c", head + textwrap.dedent(script)],
                          capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


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
    """)
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
    """)
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
    """)
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
    """)
    assert out == "[] 800\n"


def test_warnings_reach_pythons_log(pool):
    out = run(pool, """
        lines = []
        # A key that no path can reach: shared memory of a host that is none.
        client = moonpool.Client(master, namespace="warn", fingerprint="t", host_id="elsewhere",
                                 path="shm", on_warning=lines.append)
        try:
            client.put("k", b"1", timeout=0.5)
        except moonpool.MoonpoolError as error:
            print(type(error).__name__, all(isinstance(line, str) for line in lines))
    """)
    assert out.endswith("True\n")


def test_leaks(pool):
    """Resident memory is the same after many cycles as after some."""
    out = run(pool, """
        import resource, numpy
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        client = moonpool.Client(master, namespace="leaks", fingerprint="t")
        array = numpy.ones(4096, numpy.uint8)
        into = numpy.empty_like(array)
        def cycles(count):
            for i in range(count):
                client.put("k", array)
                client.get("k")
                client.get_into("k", into)
                with client.get_view("k") as view:
                    view.pieces
                client.get_many(["k", "absent"])
                client.remove("absent")
        cycles(500)
        before = resident()
        cycles(2000)
        print(resident() - before)
    """)
    assert int(out) < 4 << 20
