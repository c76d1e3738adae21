"""The native connector, where moonpool.lmcache and its tests with LMCache show too little of it."""

import textwrap

import process

HEAD = """
import ctypes, select
def connect():
    return moonpool._native.Connector(
        masters=[master], namespace="connector", fingerprint="t", path="auto", verify=True,
        store_timeout=10., load_timeout=10., wait_for_master=True, tcp_streams=2, threads=2,
        queue=64, replicas=1, wait_for_space=False, on_warning=None)
connector = connect()
def wait(fd):
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    assert poller.poll(60000)
"""


def run(pool, script):
    process.run(pool, HEAD + textwrap.dedent(script))


def test_a_buffer_may_do_anything_when_it_is_let_go_of(pool):
    run(pool, """
    gone = []
    class Lent(ctypes.c_char * 100):
        def __del__(self):
            gone.append(1)
            act()
            threads = [threading.Thread(target=use) for use in (connector.close,
                                                                connector.drain_completions)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    for act in (lambda: None, lambda: connector.drain_completions(), lambda: connector.close()):
        for first in ("drain_completions", "close"):
            connector = connect()
            gone.clear()
            for _ in range(10):
                connector.submit_batch_get(["a"], [Lent()])
            wait(connector.event_fd())
            getattr(connector, first)()
            connector.close()
            connector.drain_completions()
            assert len(gone) == 10, len(gone)
    """)


def test_an_event_that_was_closed_is_written_to_no_more(pool):
    run(pool, """
    import tempfile
    number = connector.event_fd()
    with tempfile.TemporaryFile() as other:
        os.dup2(other.fileno(), number)  # closes it, and the number is another file's now
        connector.submit_batch_exists(["k"])
        connector.wake()
        while not connector.drain_completions():
            pass
        connector.close()
        del connector
        assert os.fstat(number).st_size == 0
    """)


def test_its_event_goes_with_it(pool):
    run(pool, """
    def events():
        found = []
        for number in os.listdir("/proc/self/fdinfo"):
            try:
                with open("/proc/self/fdinfo/" + number) as info:
                    found += [line for line in info if line.startswith("eventfd-id:")]
            except FileNotFoundError:
                pass  # the listing's own, and what threads of gRPC's have closed
        return found
    with open(f"/proc/self/fdinfo/{connector.event_fd()}") as info:
        [event] = [line for line in info if line.startswith("eventfd-id:")]
    assert events().count(event) == 2
    connector.close()
    assert event in events()  # what was not drained can still be
    del connector
    assert event not in events()
    """)


def test_a_forked_child_takes_nothing_of_its_parents(pool):
    run(pool, """
    connector.submit_batch_exists(["k"])
    wait(connector.event_fd())
    fd = connector.event_fd()
    child = os.fork()
    if child == 0:
        for use in (connector.drain_completions, connector.event_fd, connector.wake,
                    connector.stats, lambda: connector.submit_batch_exists(["k"])):
            try:
                use()
                os._exit(1)
            except moonpool.FailedPrecondition as error:
                if "forked" not in str(error):
                    os._exit(2)
        connector.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    wait(fd)
    assert len(connector.drain_completions()) == 1
    """)
