"""Sampled allocations: what is alive is told with its line and about its size, and nothing of the job's changes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from leakscope.agent.allocations import sampler as sampler_module
from leakscope.agent.graph import layout

from ..harm.interpreters import Interpreter, interpreter_at, interpreters
from .sampled import FOLDER, built, has_sampler, said
from .staging import rows, run, stage
from .test_native import OTHER_MALLOC

MiB = 1 << 20

pytestmark = [pytest.mark.live, has_sampler]

KEPT = """\
kept = []
def keep():
    for _ in range(400):
        kept.append(bytearray(50_000))
def drop():
    for _ in range(4000):
        bytearray(50_000)
def grow():
    global numbers
    numbers = [0]
    for _ in range(1_000_000):
        numbers.append(0)
for function in keep, drop, grow:
    in_thread(function)
say(alive=told())
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_what_is_alive_is_told_with_its_line_and_size(interpreter: Interpreter, tmp_path: Path) -> None:
    found = said(KEPT, tmp_path, interpreter)
    assert found["refusal"] is None
    alive = found["alive"]
    # 400 samples or so: four standard errors are a fifth.
    assert alive["keep:5"] == pytest.approx(400 * 50_000, rel=0.2)
    assert alive["grow:13"] == pytest.approx(8e6 * 1.06, rel=0.3)
    assert sum(size for key, size in alive.items() if key.startswith("drop")) < MiB
    assert found["figures"]["dropped"] == found["figures"]["missed"] == 0


def test_a_python_whose_malloc_is_a_stub_of_its_own_is_sampled(tmp_path: Path) -> None:
    """Debian's lies at fixed addresses: malloc's address is one in the program for everybody, calloc's one in libc."""
    system = interpreter_at("/usr/bin/python3")
    if system is None or system.is_refused:
        pytest.skip("no Python of the system")
    found = said(KEPT, tmp_path, system)
    assert found["refusal"] is None
    assert found["alive"]["keep:5"] == pytest.approx(400 * 50_000, rel=0.2)


PEAK = """\
kept = []
def keep():
    kept.append(bytearray(40_000_000))
def pass_by():
    one = bytearray(200_000_000)
    other = bytearray(60_000_000)
    del one
    larger = bytearray(100_000_000)
def told_now():
    names = "function", "owner_line", "live_bytes", "peak_bytes", "peak_ago_s"
    return [[row[name] for name in names] for row in one.rows()]
began = time.monotonic()
for function in keep, pass_by, keep:
    in_thread(function)
say(first=told_now(), lasted=time.monotonic() - began, again=told_now())
"""


def test_who_asked_for_what_made_a_peak_and_is_gone_is_told_once_as_it_was_then(tmp_path: Path) -> None:
    """All together were most with the first two of the three that pass by, and one of those that are kept."""
    found = said(PEAK, tmp_path)
    first = {(function, line): (live, peak) for function, line, live, peak, _ in found["first"]}
    assert first["pass_by", 6] == (0, pytest.approx(200e6, rel=0.01))
    assert first["pass_by", 7] == (0, pytest.approx(60e6, rel=0.01))
    assert ("pass_by", 9) not in first, "it came after the peak"
    assert first["keep", 4] == (pytest.approx(80e6, rel=0.01), pytest.approx(40e6, rel=0.01))
    assert all(0 <= ago_s <= found["lasted"] for *_, ago_s in found["first"])
    assert {(function, peak) for function, _, _, peak, _ in found["again"]} == {("keep", None)}


ARENAS = """\
kept = []
def keep():
    kept.extend(range(1_000_000, 2_000_000))
def pass_by():
    return sum([number * 1.5 for number in range(2_000_000)])
for function in keep, pass_by:
    in_thread(function)
names = "function", "live_bytes", "peak_bytes"
say(arenas=[[row[name] for name in names] for row in one.rows() if row["allocator"] == "arenas"])
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_who_asked_for_room_for_small_objects_is_told(interpreter: Interpreter, tmp_path: Path) -> None:
    """A million numbers of 32 bytes that are kept, and two that pass by: in arenas, of which malloc knows nothing."""
    arenas = {function.split(".")[0]: sizes for function, *sizes in said(ARENAS, tmp_path, interpreter)["arenas"]}
    assert arenas["keep"] == [pytest.approx(32e6, rel=0.15)] * 2
    assert arenas["pass_by"] == [pytest.approx(0, abs=4e6), pytest.approx(64e6, rel=0.15)]


MAPPED = """\
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MiB = 1 << 20
def aligned():
    at = libc.mmap(None, 96 * MiB, 3, 0x22, -1, 0)
    libc.munmap(at, 16 * MiB)
    libc.munmap(at + 80 * MiB, 16 * MiB)
    ctypes.memset(at + 16 * MiB, 1, 8 * MiB)
in_thread(aligned)
say(rows=[row for row in one.rows() if row["function"] == "aligned"])
"""


def test_of_a_mapping_that_is_cut_the_rest_is_known_and_what_of_it_is_resident(tmp_path: Path) -> None:
    """As allocators align what they map; and they map more than they need."""
    (row,) = said(MAPPED, tmp_path)["rows"]
    assert row["live_bytes"] == pytest.approx(64 * MiB, rel=0.01)
    assert row["map_rss_bytes"] == pytest.approx(8 * MiB, rel=0.3)


OBJECTS = """\
class Node:
    def __init__(self, number):
        self.number = number
        self.text = str(number) * 3
nodes = []
def keep():
    for number in range(100_000, 130_000):
        nodes.append(Node(number))
def drop():
    for number in range(100_000):
        [number]
before = one._held.sampler_arm(2048.0)
in_thread(keep)
in_thread(drop)
alive = told(2)
one._held.sampler_disarm()
in_thread(keep)
say(armed=before, alive=alive, after=told(2))
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_small_objects_are_told_while_they_are_watched(interpreter: Interpreter, tmp_path: Path) -> None:
    found = said(OBJECTS, tmp_path, interpreter)
    assert found["armed"] == 1
    alive = found["alive"]
    assert alive["__init__:5"] > 30_000 * 60 * 0.7  # the texts
    assert alive["keep:9"] > 30_000 * 48 * 0.7  # the nodes
    assert sum(size for key, size in alive.items() if key.startswith("drop")) < 0.05 * sum(alive.values())
    assert found["after"] == {}


def test_a_thread_that_allocates_as_it_begins_is_sampled(tmp_path: Path) -> None:
    """Its calls lead to ours a moment before anything is drawn."""
    text = """\
    stop = threading.Event()
    kept = []
    def churn():
        while not stop.is_set():
            bytearray(1000)
        for _ in range(400):
            kept.append(bytearray(50_000))
    one._lib.sampler_end()
    thread = threading.Thread(target=churn)
    thread.start()
    time.sleep(0.2)
    one.begin()
    stop.set()
    thread.join()
    say(alive=told())
    """
    found = said(text, tmp_path)
    assert found["alive"]["churn:8"] == pytest.approx(400 * 50_000, rel=0.25)


def test_too_many_samples_are_thinned_out_and_still_add_up(tmp_path: Path) -> None:
    text = """\
    kept = []
    def keep():
        for _ in range(60_000):
            kept.append(bytearray(3000))
    in_thread(keep)
    say(alive=told())
    """
    found = said(text, tmp_path, every=1024.0)
    assert found["alive"]["keep:5"] == pytest.approx(60_000 * 3001, rel=0.05)
    assert found["figures"]["live"] <= 1 << 14


def test_what_another_library_maps_and_unmaps_is_followed(tmp_path: Path) -> None:
    text = """\
    import mmap
    told()  # a library that has just come is looked at now and then
    kept = []
    def keep():
        for _ in range(20):
            kept.append(mmap.mmap(-1, 1 << 20))
    def drop():
        for _ in range(200):
            mmap.mmap(-1, 1 << 20).close()
    in_thread(keep); in_thread(drop)
    say(alive=told(1))
    """
    found = said(text, tmp_path)
    assert found["alive"]["keep:7"] == pytest.approx(20 * MiB, rel=0.01)  # each is larger than the mean by far
    assert found["alive"].get("drop:10", 0) == 0


def test_a_forked_child_tells_only_of_its_own(tmp_path: Path) -> None:
    text = """\
    kept = []
    def keep():
        for _ in range(100):
            kept.append(bytearray(100_000))
    in_thread(keep)
    before = told()
    out, into = os.pipe()
    if not os.fork():
        one.forked(1)
        mine = told()
        in_thread(keep)
        os.write(into, json.dumps([mine, told()]).encode())
        os._exit(0)
    os.wait()
    at_first, later = json.loads(os.read(out, 1 << 16))
    say(parent=before, at_first=at_first, later=later, still=told())
    """
    found = said(text, tmp_path)
    assert found["at_first"] == {}
    assert found["later"]["keep:5"] == pytest.approx(found["parent"]["keep:5"], rel=0.3)
    assert found["still"] == found["parent"]


@pytest.mark.slow
def test_threads_may_allocate_free_load_and_fork_at_once(tmp_path: Path) -> None:
    """Neither a crash nor a standstill, and what is freed is forgotten."""
    text = """\
    import ctypes, random, subprocess, _ctypes
    end = time.monotonic() + 4
    def churn():
        kept = []
        while time.monotonic() < end:
            kept.append(bytearray(random.randrange(100_000)))
            if len(kept) > 50:
                del kept[random.randrange(50)]
    def load():
        import glob, sysconfig
        files = glob.glob(os.path.join(sysconfig.get_path("stdlib"), "lib-dynload", "*.so"))
        while time.monotonic() < end:
            handle = _ctypes.dlopen(random.choice(files), 1)
            _ctypes.dlclose(handle)
    def fork():
        while time.monotonic() < end:
            pid = os.fork()
            if not pid:
                [bytearray(50_000) for _ in range(100)]
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    def watch():
        while time.monotonic() < end:
            one._next_tick = 0
            one.tick(None)
            one.rows()
    threads = [threading.Thread(target=f) for f in (churn, churn, churn, load, fork, watch)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    say(alive=sum(told().values()))
    """
    found = said(text, tmp_path, every=4096.0)
    assert found["refusal"] is None
    assert found["alive"] < 4 * MiB


def test_the_environment_and_errno_are_as_they_were(tmp_path: Path) -> None:
    text = """\
    import ctypes, errno
    kept = []
    library = ctypes.CDLL(None, use_errno=True)
    library.open.argtypes = (ctypes.c_char_p, ctypes.c_int)
    def fails():
        found = set()
        for _ in range(2000):
            library.open(b"/nowhere/at/all", 0)
            kept.append(bytearray(5000))
            found.add(ctypes.get_errno())
        say(preload=os.environ.get("LD_PRELOAD"), errors=sorted(found), wanted=errno.ENOENT)
    in_thread(fails)
    """
    found = said(text, tmp_path, every=1024.0)
    assert found["preload"] is None
    assert found["errors"] == [found["wanted"]]


def test_the_flags_of_floating_point_numbers_are_as_they_were(tmp_path: Path) -> None:
    """numpy looks at them after each loop; who asked for it is ended by SIGFPE as one is set."""
    code = """
    #include <fenv.h>
    #include <stdlib.h>
    int flags(void) {
        static void *kept[2000];
        feclearexcept(FE_ALL_EXCEPT);
        for (int i = 0; i < 40000; i++) {
            free(kept[i % 2000]);
            kept[i % 2000] = malloc(5000);
        }
        return fetestexcept(FE_ALL_EXCEPT);
    }
    """
    library = built(tmp_path, "flags", code, "-lm")
    text = f"""\
    import ctypes
    flags = ctypes.CDLL({str(library)!r}).flags
    told()
    seen = []
    in_thread(lambda: seen.append(flags()))
    say(seen=seen)
    """
    found = said(text, tmp_path, every=1024.0)
    assert found["figures"]["drawn"] > 1000
    assert found["seen"] == [0]


def test_who_wraps_what_wraps_objects_is_not_wrapped_by_it(tmp_path: Path) -> None:
    """Each would call the other without end."""
    code = """
    #include <stddef.h>
    struct allocator {
        void *context;
        void *(*malloc)(void *, size_t);
        void *(*calloc)(void *, size_t, size_t);
        void *(*realloc)(void *, void *, size_t);
        void (*free)(void *, void *);
    };
    void PyMem_GetAllocator(int, struct allocator *);
    void PyMem_SetAllocator(int, struct allocator *);
    static struct allocator inner;
    static void *asks(void *c, size_t n) { return inner.malloc(inner.context, n); }
    static void *clears(void *c, size_t n, size_t m) { return inner.calloc(inner.context, n, m); }
    static void *again(void *c, void *at, size_t n) { return inner.realloc(inner.context, at, n); }
    static void gives(void *c, void *at) { inner.free(inner.context, at); }
    void wrap(void) {
        static struct allocator outer = {NULL, asks, clears, again, gives};
        PyMem_GetAllocator(2, &inner);
        PyMem_SetAllocator(2, &outer);
    }
    void unwrap(void) { PyMem_SetAllocator(2, &inner); }
    """
    library = built(tmp_path, "wraps", code)
    text = f"""\
    import ctypes
    wraps = ctypes.PyDLL({str(library)!r})
    armed = [one._held.sampler_arm(2048.0)]
    wraps.wrap()
    one._held.sampler_disarm()
    armed.append(one._held.sampler_arm(2048.0))
    kept = [[number] for number in range(10000)]
    one._held.sampler_disarm()
    wraps.unwrap()
    armed.append(one._held.sampler_arm(2048.0))
    kept += [[number] for number in range(10000)]
    one._held.sampler_disarm()
    say(armed=armed)
    """
    assert said(text, tmp_path)["armed"] == [1, 0, 1]


def test_a_library_that_has_a_malloc_of_its_own_later_keeps_to_it(tmp_path: Path) -> None:
    """Loaded so that its own libraries come first, and what it calls is looked up at the first call."""
    own = """
    #include <stddef.h>
    static char room[1 << 20];
    static size_t used;
    int count;
    void *malloc(size_t n) { count++; used += (n + 15) & ~15ul; return room + used; }
    void free(void *at) { count += at != NULL; }
    """
    user = """
    #include <stdlib.h>
    extern int count;
    int use(void) { free(malloc(1000)); return count; }
    """
    built(tmp_path, "own", own)
    library = built(tmp_path, "user", user, "-Wl,-z,lazy", f"-L{tmp_path}", "-lown", f"-Wl,-rpath,{tmp_path}")
    text = f"""\
    import ctypes
    open_ = ctypes.CDLL(None).dlopen
    open_.restype = ctypes.c_void_p
    handle = open_({str(library).encode()!r}, os.RTLD_LAZY | os.RTLD_DEEPBIND)
    told()
    say(count=ctypes.CDLL("user", handle=handle).use())
    """
    assert said(text, tmp_path)["count"] == 2


def test_two_threads_that_fork_at_once_leave_no_lock_behind(tmp_path: Path) -> None:
    code = """
    #include <pthread.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static void takes_long(void) { usleep(200000); }
    void begin(void) { pthread_atfork(takes_long, NULL, NULL); }
    void forks(void) {
        pid_t pid = fork();
        if (!pid)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    """
    library = built(tmp_path, "forks", code, "-lpthread")
    first = f"import ctypes\nforks = ctypes.CDLL({str(library)!r})\nforks.begin()\n"  # its handler runs after ours
    text = """\
    threads = [threading.Thread(target=forks.forks) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    kept = []
    before = one.figures()
    in_thread(lambda: kept.extend(bytearray(50_000) for _ in range(300)))
    say(before=before)
    """
    found = said(text, tmp_path, first=first)
    assert found["figures"]["missed"] == found["before"]["missed"]
    assert found["figures"]["drawn"] > found["before"]["drawn"] + 100


NEWS = """\
    import ctypes
    library = ctypes.PyDLL({library!r})
    library.make.restype, library.drop.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    told()  # a library that has just come is looked at now and then
    kept = []
    def keep():
        for _ in range(400):
            kept.append(bytearray(50_000))
    def new():
        for _ in range(400):
            library.make(50_000)
    def drop():
        for _ in range(4000):
            library.drop(library.make(50_000))
    for function in keep, new, drop:
        in_thread(function)
    say(alive=told())
"""


def test_what_another_malloc_hands_out_is_told_too(tmp_path: Path) -> None:
    """Preloaded, it serves malloc and C++'s new: what is freed comes back to it, as what was never drawn does."""
    cpp = "void *_Znwm(size_t n) { return malloc(n); }\nvoid _ZdlPv(void *at) { free(at); }\n"
    cpp += "size_t malloc_usable_size(void *at) { return ((size_t *)at)[-2]; }\n"
    other = built(tmp_path, "other", OTHER_MALLOC.replace("#define _GNU_SOURCE\n", "") + cpp)
    calls = "#include <stddef.h>\nextern void *_Znwm(size_t);\nextern void _ZdlPv(void *);\n"
    calls += "void *make(size_t n) { return _Znwm(n); }\nvoid drop(void *at) { _ZdlPv(at); }\n"
    library = built(tmp_path, "calls", calls)
    found = said(NEWS.format(library=str(library)), tmp_path, LD_PRELOAD=str(other))
    assert found["refusal"] is None
    assert found["alive"]["keep:9"] == pytest.approx(400 * 50_000, rel=0.25)
    assert found["alive"]["new:12"] == pytest.approx(400 * 50_000, rel=0.25)
    assert sum(size for key, size in found["alive"].items() if key.startswith("drop")) < MiB


def test_where_another_malloc_has_a_part_only_it_stays_away(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler")
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(
        "#include <stddef.h>\nextern void *__libc_malloc(size_t);\n"
        "void *malloc(size_t n) { return __libc_malloc(n); }\n"
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    found = said("say()\n", tmp_path, LD_PRELOAD=str(library))
    assert found["refusal"] == sampler_module._REFUSALS[2]


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "for-a-moment"])
def test_who_takes_over_malloc_later_is_left_alone(tmp_path: Path, stays: bool) -> None:
    text = (
        f"    stays = {stays}"
        + """
    import ctypes, tempfile
    import subprocess
    # As tracers do: the words lead to functions of theirs.
    code = b'''
    #define _GNU_SOURCE
    #include <link.h>
    #include <string.h>
    #include <sys/mman.h>
    static void *kept, **where;
    static void theirs(void *at) { (void)at; }
    static int visit(struct dl_phdr_info *info, size_t size, void *to) {
        if (strstr(info->dlpi_name, "vdso") || strstr(info->dlpi_name, "ld-linux") ||
            strstr(info->dlpi_name, "libc.so"))
            return 0;
        const ElfW(Sym) *symbols = 0; const char *names = 0; ElfW(Rela) *all = 0; size_t count = 0;
        for (int i = 0; i < info->dlpi_phnum; i++) if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            for (ElfW(Dyn) *d = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); d->d_tag; d++) {
                if (d->d_tag == DT_SYMTAB) symbols = (void *)d->d_un.d_ptr;
                if (d->d_tag == DT_STRTAB) names = (void *)d->d_un.d_ptr;
                if (d->d_tag == DT_JMPREL) all = (void *)d->d_un.d_ptr;
                if (d->d_tag == DT_PLTRELSZ) count = d->d_un.d_val / sizeof *all;
            }
        for (size_t i = 0; i < count; i++)
            if (!strcmp(names + symbols[ELF64_R_SYM(all[i].r_info)].st_name, "posix_memalign") ||
                !strcmp(names + symbols[ELF64_R_SYM(all[i].r_info)].st_name, "munmap")) {
                void **word = (void *)(info->dlpi_addr + all[i].r_offset);
                mprotect((void *)((unsigned long)word & ~4095ul), 4096, PROT_READ | PROT_WRITE);
                kept = *word; where = word; *word = (void *)theirs; return 1;
            }
        return 0;
    }
    int take_over(void) { return dl_iterate_phdr(visit, 0); }
    void give_back(void) { *where = kept; }
    '''
    folder = tempfile.mkdtemp()
    open(folder + "/t.c", "wb").write(code)
    subprocess.check_call(["gcc", "-shared", "-fPIC", "-o", folder + "/t.so", folder + "/t.c"])
    tracer = ctypes.CDLL(folder + "/t.so")
    one._lib.sampler_tick(time.monotonic())  # the tracer's own words are looked at
    took = tracer.take_over()
    for _ in range(2):
        one._next_tick = 0
        one.tick(None)
        if took and not stays:
            tracer.give_back()
    print(json.dumps(dict(took=took, refusal=one.refusal, is_on=one.is_on)), flush=True)
    os._exit(0)
    """
    )
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    found = said(text, tmp_path)
    if not found["took"]:
        pytest.skip("this Python has no such word")
    assert found["refusal"] == (f"{sampler_module._REFUSALS[5]}: t.so" if stays else None)
    assert found["is_on"] == (not stays)


def test_a_library_may_set_its_own_functions_in_the_place_of_malloc(tmp_path: Path) -> None:
    """Variables that begin as malloc, free and realloc, as cJSON has them; they are not the tables calls go by."""
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    text = """\
    import ctypes, subprocess, tempfile
    code = b'''
    #include <stdlib.h>
    static int asked;
    static struct { void *(*make)(size_t); void (*drop)(void *); void *(*resize)(void *, size_t); } hooks = {
        malloc, free, realloc};
    static void *own(size_t bytes) { asked++; return malloc(bytes); }
    static void own_free(void *at) { free(at); }
    void use(void) { void *at = hooks.make(1 << 20); hooks.drop(at); }
    void set(void) { hooks.make = own; hooks.drop = own_free; hooks.resize = 0; }
    int times(void) { return asked; }
    int is_unset(void) { return !hooks.resize; }
    '''
    folder = tempfile.mkdtemp()
    open(folder + "/h.c", "wb").write(code)
    subprocess.check_call(["gcc", "-shared", "-fPIC", "-o", folder + "/h.so", folder + "/h.c"])
    library = ctypes.CDLL(folder + "/h.so")
    def tick():
        one._next_tick = 0
        one.tick(None)
    tick()
    library.use()
    library.set()
    for _ in range(3):
        tick()
        library.use()
    print(json.dumps(dict(times=library.times(), unset=library.is_unset(), refusal=one.refusal, is_on=one.is_on)))
    """
    assert said(text, tmp_path) == {"times": 3, "unset": 1, "refusal": None, "is_on": True}


def test_the_agent_writes_what_native_code_keeps(tmp_path: Path) -> None:
    text = """
import ctypes, time
libc = ctypes.CDLL(None)
malloc, libc.strdup.restype = libc.malloc, ctypes.c_void_p  # it looks malloc up before anything is drawn
def lose():
    for _ in range(300): libc.strdup(b"x" * 30_000)
def ask():
    for _ in range(300): malloc(30_001)
time.sleep(2)
for _ in range(12):
    lose()
    ask()
    time.sleep(0.1)
"""
    journal = stage(tmp_path, flush_s=1.0)
    script = tmp_path / "lost.py"
    script.write_text(text)
    assert run(journal, str(script)).returncode == 0
    for function, line in (("lose", 6), ("ask", 8)):
        found = [row for row in rows(journal)["allocation_stacks"] if row["function"] == function]
        last = max(row["time_mono_ns"] for row in found)
        lost = sum(row["live_bytes"] for row in found if row["time_mono_ns"] == last)
        assert lost == pytest.approx(12 * 300 * 30_001, rel=0.4)
        assert {row["owner_line"] for row in found} == {line}


def test_what_the_recorders_own_thread_asks_for_is_left_out_after_a_fork_too(tmp_path: Path) -> None:
    """It ends before each fork, since Python 3.12, and another goes on afterwards."""
    text = """\
    kept = []
    def own():
        one.tick(None)
        kept.extend([bytearray(50_000) for _ in range(300)])
    in_thread(own)
    say(alive=told())
    """
    found = said(text, tmp_path)
    assert not [key for key in found["alive"] if key.startswith(("own", "<listcomp>"))]


def test_it_ends_before_python_does_while_somebody_watches_too(tmp_path: Path) -> None:
    """Later, threads that still run would be asked for frames of theirs that are freed."""
    text = """
import os, sys, time, types
agent = sys.modules["_leakscope_agent"].main._agent
while not agent._sampler.is_on:
    time.sleep(0.05)
class Last:
    def __del__(self):
        os.write(1, b"%d alive" % self.figures()["live"])
last = Last()
sys.modules["held"] = types.ModuleType("held")  # the tracer keeps this module's variables to the very end
sys.modules["held"].last = last
last.figures, last.kept = agent._sampler.figures, [bytearray(50_000) for _ in range(300)]
assert last.figures()["live"]
del last
sys.settrace(lambda *_: None)
"""
    journal = stage(tmp_path)
    script = tmp_path / "watched.py"
    script.write_text(text)
    done = run(journal, str(script), LEAKSCOPE_STRESS="0.05")
    assert (done.returncode, done.stdout) == (0, "0 alive"), done.stderr


READER_STANDS_STILL = """
#include "%s/sampler.c"

static int is_reading, may_go_on, has_ended;

static void *stands_still(void)
{
    is_reading = 1;
    while (!__atomic_load_n(&may_go_on, __ATOMIC_SEQ_CST))
        usleep(1000);
    return NULL;
}

static void *allocates(void *unused)
{
    remember((void *)4096, 100, MALLOC, 100.0, 0, __builtin_frame_address(0));
    return unused;
}

static void *ends(void *unused)
{
    sampler_without_python();
    __atomic_store_n(&has_ended, 1, __ATOMIC_SEQ_CST);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    L.thread_frame = L.code_file = 8;
    least_rate = rate = 100.0;
    this_thread_or_null = stands_still;
    pthread_create(&threads[0], NULL, allocates, NULL);
    while (!__atomic_load_n(&is_reading, __ATOMIC_SEQ_CST))
        usleep(1000);
    pthread_create(&threads[1], NULL, ends, NULL);
    usleep(200000);
    printf("%%d", __atomic_load_n(&has_ended, __ATOMIC_SEQ_CST));
    __atomic_store_n(&may_go_on, 1, __ATOMIC_SEQ_CST);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf(" %%d %%u", has_ended, live_count);
    return 0;
}
"""


def test_python_goes_on_ending_once_no_thread_reads_its_frames(tmp_path: Path) -> None:
    """A daemon thread that was put aside as it read would go on in frames that are freed."""
    assert said_by_program(READER_STANDS_STILL, tmp_path) == "0 1 1"


FORKS_AS_MODULES_ARE_WALKED = """
#include "%s/sampler.c"
#include <sys/wait.h>

static int is_walking;

static int takes_long(struct dl_phdr_info *info, size_t size, void *to)
{
    (void)info, (void)size, (void)to;
    __atomic_store_n(&is_walking, 1, __ATOMIC_SEQ_CST);
    usleep(300000);
    return 1;
}

static void *walks(void *unused)
{
    walk_modules(takes_long, NULL);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_atfork(before_fork, after_fork, in_child);
    pthread_create(&thread, NULL, walks, NULL);
    while (!__atomic_load_n(&is_walking, __ATOMIC_SEQ_CST))
        usleep(1000);
    int status = -1;
    pid_t child = fork();
    if (!child) {
        struct counted counted = {0, 0};
        alarm(10);
        dl_iterate_phdr(count_modules, &counted); /* as dlopen does, and whoever throws an exception of C++ */
        _exit(counted.adds ? 0 : 1);
    }
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    walk_modules(count_modules, &(struct counted){0, 0});
    printf("%%d", status);
    return 0;
}
"""


def test_a_child_that_is_forked_as_modules_are_walked_through_can_load_some(tmp_path: Path) -> None:
    """It would wait for ever for the lock of a thread that it does not have."""
    assert said_by_program(FORKS_AS_MODULES_ARE_WALKED, tmp_path) == "0"


def said_by_program(text: str, tmp_path: Path) -> str:
    """What a program of C says that the sampler is a part of."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(text % FOLDER)
    libraries = ("-lm", "-pthread", "-ldl")
    subprocess.run([compiler, "-std=gnu11", "-O1", str(source), "-o", str(program), *libraries], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_window_on_objects_is_over_in_a_fork_of_which_nobody_tells(tmp_path: Path) -> None:
    text = """\
    one._held.sampler_arm(2048.0)
    pid = os.fork()
    if not pid:
        before = one.figures()["drawn"]
        kept = [[number] for number in range(100_000)]
        os._exit(0 if one.figures()["drawn"] - before < 100 else 1)
    status = os.waitpid(pid, 0)[1]
    one._held.sampler_disarm()
    say(status=status)
    """
    assert said(text, tmp_path, every=1e9)["status"] == 0


def test_layouts_are_of_one_size() -> None:
    """sampler.c refuses another; this says so before anybody records with it."""
    assert sampler_module._refusal() is None
    assert layout.find() is not None


HOLDS_IN_C = """\
import ctypes, sqlite3, zlib
from agent.graph.heap_graph import HeapGraph
streams, database, numbers = [], sqlite3.connect(":memory:", check_same_thread=False), bytearray(20_000_000)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
addresses = []
def fill():
    for _ in range(100):
        stream = zlib.compressobj()
        stream.compress(os.urandom(400_000))
        streams.append(stream)
    for number in range(20):
        stream = zlib.decompressobj()  # of 40 kB
        stream.decompress(zlib.compress(os.urandom(100_000)))
        globals()["single_%d" % number] = [stream, list(range(1000, 60_000))]
    database.execute("create table t (text)")
    database.executemany("insert into t values (?)", [("x" * 1000,) for _ in range(20_000)])
    for _ in range(100):  # in Python a number, and no object's
        addresses.append(libc.malloc(200_000))
        ctypes.memset(addresses[-1], 1, 200_000)
    handle.value, engine = libc.malloc(1000), libc.malloc(30_000_000)
    ctypes.memset(handle.value, 0, 1000)
    ctypes.memset(engine, 1, 30_000_000)
    ctypes.c_uint64.from_address(handle.value + 37 * 8).value = engine  # far in, as in large objects of C++
    ranges[0] = libc.malloc(5_000_000)  # as one of the agent's arrays has the bounds of mappings
    ctypes.memset(ranges[0], 1, 5_000_000)
handle = ctypes.c_void_p()
ranges = type("Ranges", (ctypes.c_uint64 * 2,), {"__module__": "_leakscope_agent.interpreter.arrays"})()
in_thread(fill)
graph = HeapGraph(minds_watchers=False)
graph.native = one.blocks
graph.read(1, 1e9, 1 << 34)
found = graph.work_out()
held = {}
for table, row in found.rows:
    if table == "heap_nodes" and row["retained_native_bytes"]:
        held[str(row["edge_name"] or row["type_name"])] = row["retained_native_bytes"]
total = [row["native_bytes"] for table, row in found.rows if table == "heap_graphs"]
again = []
for number in 2, 3:
    del streams[50:]
    graph.read(number, 1e9, 1 << 34)
    again += [row["native_bytes"] for table, row in graph.work_out().rows if table == "heap_graphs"]
say(held=held, total=total[0], again=again, python_bytes=found.python_bytes)
"""


def test_what_a_program_asks_malloc_for_by_ctypes_is_told(tmp_path: Path) -> None:
    """It looks malloc up itself; what it frees again is freed."""
    text = """\
    import ctypes
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.argtypes = (ctypes.c_void_p,)
    def keep():
        for _ in range(400):
            libc.malloc(50_000)
    def drop():
        for _ in range(4000):
            libc.free(libc.malloc(50_000))
    in_thread(keep)
    in_thread(drop)
    say(alive=told())
    """
    found = said(text, tmp_path)
    assert found["alive"]["keep:8"] == pytest.approx(400 * 50_000, rel=0.2)
    assert sum(size for key, size in found["alive"].items() if key.startswith("drop")) < MiB


def test_who_looks_for_the_next_function_finds_what_comes_after_itself(tmp_path: Path) -> None:
    """RTLD_NEXT goes by the caller: that is the program's library, and none of ours."""
    built(tmp_path, "other", "#include <stddef.h>\nvoid *aligned_alloc(size_t to, size_t of) { return (void *)7; }")
    code = """
    #include <dlfcn.h>
    #include <stddef.h>
    long next(void) { return (long)((void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc"))(8, 8); }
    """
    library = built(tmp_path, "first", code, f"-L{tmp_path}", "-Wl,--no-as-needed", "-lother", f"-Wl,-rpath,{tmp_path}")
    text = f"""\
    import ctypes
    library = ctypes.CDLL({str(library)!r})
    told()
    say(next=library.next())
    """
    assert said(text, tmp_path)["next"] == 7


BY_TURNS = """\
import zlib
from agent.graph.heap_graph import HeapGraph
streams = []
def fill():
    for number in range(9_000):  # more than are looked at, one by one
        streams.append(zlib.decompressobj())  # 7 kB
        streams.append(float(number))
in_thread(fill)
graph = HeapGraph(minds_watchers=False)
graph.native = one.blocks
held = {}
for number in 1, 2:
    graph.read(number, 1e9, 1 << 34)
    for table, row in graph.work_out().rows:
        if table == "heap_nodes" and row["retained_native_bytes"]:
            held[str(row["edge_name"] or row["type_name"])] = row["retained_native_bytes"]
say(held=held)
"""


def test_where_not_all_objects_are_looked_at_those_that_are_stand_for_the_others(tmp_path: Path) -> None:
    """Kept by turns with others, as keys and values are, they have even numbers all, or odd ones."""
    held = said(BY_TURNS, tmp_path)["held"]
    assert held["['streams']"] == pytest.approx(9_000 * 7_200, rel=0.35)


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_native_memory_is_held_by_the_objects_that_lead_to_it(interpreter: Interpreter, tmp_path: Path) -> None:
    found = said(HOLDS_IN_C, tmp_path, interpreter)
    held = found["held"]
    of_streams = held["['streams']"]
    assert of_streams == pytest.approx(100 * 264 * 1024, rel=0.35)  # what zlib says that deflate needs, and some more
    # Of one object a sample or two say nothing: that stands where there is enough of it together.
    assert not [name for name in held if "single" in name]
    # Its pages hang on each other: those that are a few pointers away are found.
    assert 0 < held.get("['database']", 1) <= 30 * MiB
    assert "['addresses']" not in held and "['numbers']" not in held and "['ranges']" not in held
    assert held["['handle']"] == pytest.approx(30_000_000, rel=0.01)  # what lies behind an address of ctypes
    assert found["total"] < 90 * MiB
    assert found["python_bytes"] >= 20_000_000  # the bytearray is Python's, and weighed as such
    assert found["again"][0] == pytest.approx(found["total"] - of_streams / 2, rel=0.3)
    assert found["again"][0] == found["again"][1]


def test_what_reads_the_heap_is_not_the_programs_memory(tmp_path: Path) -> None:
    """On a thread of the job's, as after a step of an optimizer: while it is worked out it is there for seconds."""
    found = said(
        """
from agent.graph.heap_graph import HeapGraph
graph, kept = HeapGraph(), [[i] for i in range(200_000)]
told()  # what was loaded since is followed from now on
def look():
    assert graph.read(1, float("inf"), 1 << 30) is not None
in_thread(look)
before = sum(told().values()), sum(told(1).values())
assert graph._read, "it is still there"
say(malloc=before[0], mapped=before[1])
""",
        tmp_path,
        every=4096.0,
    )
    assert not found["refusal"]
    assert found["mapped"] < 1 * MiB and found["malloc"] < 2 * MiB


LARGE = """\
import struct
memory = os.memfd_create("leakscope-requests")
os.write(memory, bytes(129 * 2048))
one._lib.sampler_note_requests(f"/proc/self/fd/{memory}".encode(), 7)
def large():
    return bytearray(50_000_000)
def small():
    return bytearray(1_000_000)
def written():
    slots = [os.pread(memory, 2048, at * 2048) for at in range(1, 129)]
    found = []
    for slot in slots:
        order, _, size, ticks, pid, length = struct.unpack_from("<QqQQiI", slot)
        text = slot[40 : 40 + length].decode().split("\\n")
        found += [(order, size, ticks, pid == os.getpid(), text[1], text[3].partition("\\0")[0])] if order else []
    return sorted(found)
for _ in range(200):
    in_thread(large)
in_thread(small)
mine = written()
if not os.fork():
    in_thread(large)
    unknown = written()
    one.forked(8)
    in_thread(large)
    say(mine=mine, unknown=unknown == [(*line[:3], False, *line[4:]) for line in mine], last=written()[-1])
else:
    os.wait()
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_large_pieces_are_written_down_as_they_are_asked_for(interpreter: Interpreter, tmp_path: Path) -> None:
    """Whoever is killed by the next one: the last of them, and of a fork only what it asked for itself."""
    found = said(LARGE, tmp_path, interpreter)
    orders, sizes, ticks, own, lines, functions = zip(*found["mine"])
    assert list(orders) == list(range(200 - 128 + 1, 200 + 1))
    assert min(sizes) >= 50_000_000 and set(ticks) == {7} and set(own) == {True}
    assert set(lines) == {"7"} and {name.rpartition(".")[2] for name in functions} == {"large"}
    assert found["unknown"]
    assert found["last"][2:5] == [8, True, "7"]
