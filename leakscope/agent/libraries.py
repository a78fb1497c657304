"""What is known of libraries, in one table: what a thing of theirs is, what makes or fills it, what lets go of it.

Read in the job, by what reads its heap, and afterwards, by what names holders and lines. A library that is not here is
looked at all the same; a row only saves guessing. Standard library only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# What a thing is.
REGISTRY = "registry"  # a container of the library's own, which keeps what a program hands it
DESCRIPTOR, MAPPING, THREAD, PROCESS = (
    "descriptor",
    "mapping",
    "thread",
    "process",
)  # objects that stand for one of these
POOL = "pool"  # an object that has several threads or processes of its own
KEEPER = "keeper"  # a type whose objects keep what they have met; or a function that leaves something behind
WATCHER = "watcher"  # a keeper that may trace the program: no snapshots are taken then
COMPILER = "compiler"  # part of a stack, a file mostly: there functions are compiled for a library, which keeps them
FILLED_IN_C = "filled-in-c"  # an object that keeps in C what it is given: the collector does not see it
HARMLESS = "harmless"  # an object whose inside Python does not see, and that holds next to nothing
FORKER = "forker"  # a file whose functions fork processes in numbers
OPENER = "opener"  # a kind of descriptor, as the recorder calls it
SHARED = "shared"  # segments of shared memory, by how their names begin


class Thing:
    """One row. ``name`` is a type, a path, an attribute (registries), a function or what the constants above say.

    ``made_by``: last names of the methods and functions that make or fill it, the likeliest first; ``also_by``:
    functions in full that do so themselves, and ``.methods`` on whatever object. Of those, calls count that give the
    argument ``given``, and that lack ``without``. ``asks``: part of the name of C functions that ask for what it keeps,
    whoever calls them. ``library``: whose it is, where that has to fit. ``let_go``: what frees it.
    """

    __slots__ = ("also_by", "asks", "given", "is_", "let_go", "library", "made_by", "name", "without")

    def __init__(
        self,
        name: str,
        *is_: str,
        made_by: tuple[str, ...] = (),
        also_by: tuple[str, ...] = (),
        given: str | None = None,
        without: str | None = None,
        asks: str | None = None,
        library: str | None = None,
        let_go: str | None = None,
    ) -> None:
        self.name = name
        self.is_ = is_
        self.made_by = made_by
        self.also_by = also_by
        self.given = given
        self.without = without
        self.asks = asks
        self.library = library
        self.let_go = let_go

    def is_in(self, module: str) -> bool:
        """Whether a container of this name is one of these in a module: some libraries put theirs into any."""
        return self.library in (None, module.split(".", 1)[0]) or self.name.startswith("__")


THINGS = (
    Thing("matplotlib._pylab_helpers.Gcf.figs", REGISTRY, made_by=("subplots", "subplot_mosaic", "figure"),
          library="matplotlib", let_go="close each figure once it is saved or shown: plt.close(figure)"),
    Thing("state", REGISTRY, library="torch",
          let_go="take parameters that are replaced out of the optimizer (of its param_groups, and del "
                 "optimizer.state[old]), or make a new one: it keeps the state of every parameter it ever had"),
    *(Thing(table, REGISTRY, made_by=("getLogger", "getChild"), library="logging",
            let_go="use one logger for all, and log what differs: logging keeps a logger for each name, for good")
      for table in ("loggerDict", "loggerMap")),
    Thing("handlers", REGISTRY, made_by=("addHandler",), library="logging",
          let_go="add a handler to each logger once, as a program starts (`if not logger.handlers`), or take it off "
                 "after use: logger.removeHandler(handler)"),
    Thing("__warningregistry__", REGISTRY, also_by=("warnings.warn", "warnings.warn_explicit"), library="warnings",
          let_go="give warnings a text that is the same each time, or log what differs: Python remembers each text "
                 "that it has warned with, for good"),
    Thing("unittest.mock._CallList", KEEPER, library="unittest",
          let_go="call the mock's reset_mock() now and then, or give the program a plain object instead: a mock keeps "
                 "the arguments of every call"),
    *(Thing(f"xml.etree.ElementTree.{built}", KEEPER, library="xml",
            let_go="clear the root as each element is done with (`root.clear()`): whatever reads the document piece by "
                   "piece builds the whole of it, and an element that is cleared still stands in its parent")
      for built in ("TreeBuilder", "Element")),
    Thing("itertools._tee_dataobject", KEEPER, library="itertools",
          let_go="read the iterators of itertools.tee() at one pace, or make the unread one again: what one has read "
                 "is kept until the others have read it, too"),
    Thing("itertools.cycle", KEEPER, library="itertools",
          let_go="go round by a loop (`while True: yield from loader`): itertools.cycle() keeps all that the first "
                 "round gave, for the rounds to come"),
    Thing("id_to_local_proxy_obj", REGISTRY, library="multiprocessing",
          let_go="store plain values (dict(...), list(...)), no proxies: the manager keeps each proxy that is put into "
                 "another managed object, also after it is taken out"),
    Thing("d", REGISTRY, made_by=("submit", "persist", "scatter"), library="zict",
          let_go="drop each future once its result is used (del, or future.release()), and gather results where they "
                 "are worked on: a worker of Dask keeps its result as long as a client has the future"),
    Thing("weakref.finalize._registry", REGISTRY, library="weakref",
          let_go="pass weakref.finalize nothing that refers to the object: a bound method keeps it alive"),
    Thing("spacy.strings.StringStore", KEEPER, library="spacy",
          let_go="work on each batch in `with nlp.memory_zone():`, or reload the pipeline now and then: spacy keeps "
                 "each new word for good"),
    Thing("torch.jit.trace", KEEPER, also_by=("torch.jit.trace",), library="torch",
          let_go="trace each model once and use it again, or in a process that ends: torch keeps the graph and the "
                 "class of every trace until the process ends"),
    Thing("torch.jit.script", KEEPER, also_by=("torch.jit.script",), library="torch",
          let_go="compile each module once and use it again: torch keeps what it compiled until the process ends"),
    Thing("backward(create_graph=True)", KEEPER, also_by=(".backward",), given="create_graph", library="torch",
          let_go="take these gradients by torch.autograd.grad(loss, inputs, create_graph=True), or set .grad to None "
                 "once they are used: what backward() puts into .grad keeps the graph by which it was computed, and "
                 "that graph keeps the tensor: neither is ever freed"),
    Thing("torch.profiler.profile", KEEPER, WATCHER, also_by=("torch.profiler.profile",), without="schedule",
          asks="5torch8profiler", library="torch",
          let_go="give the profiler a schedule (torch.profiler.schedule(wait=1, warmup=1, active=3)) and call its "
                 "step(): without one it keeps every event until it stops"),
    Thing("/torch/_dynamo/", COMPILER, library="torch"),
    Thing("/jax/_src/compiler.py", COMPILER, library="jax"),
    Thing("/jax/_src/interpreters/mlir.py", COMPILER, library="jax", also_by=("jax.jit", "jax.pmap"),
          let_go="pad what differs in size to a few sizes, and let no argument that differs be a static one (jax "
                 "recompiles for each shape and each value of these, and keeps what it compiled), or call "
                 "jax.clear_caches() now and then"),
    Thing(" _maybe_define_function", COMPILER, library="tensorflow"),  # the way of all that traces
    Thing("/tensorflow/python/framework/func_graph.py", COMPILER, library="tensorflow",
          also_by=("tensorflow.function", "tf.function"),
          let_go="give tf.function tensors in place of Python numbers and strings, and an input_signature or "
                 "reduce_retracing=True: it traces again for each new value and shape, and keeps each graph"),
    Thing("/numba/core/compiler.py", COMPILER, library="numba", also_by=("numba.jit", "numba.njit", "numba.vectorize"),
          let_go="give it arguments of few types, and make the compiled function once: numba recompiles for each "
                 "combination of types, and keeps the machine code until the process ends"),
    Thing("tensorflow.core.function.polymorphism.function_cache.FunctionCache", KEEPER, library="tensorflow",
          let_go="give tf.function tensors in place of Python numbers and strings, and an input_signature or "
                 "reduce_retracing=True: it traces again for each new value and shape, and keeps each graph"),
    Thing("tensorflow.data.Dataset.cache", KEEPER, also_by=(".cache",), asks="tsl4port13AlignedMalloc",
          library="tensorflow",
          let_go="leave out cache(), or give it a file name, or put take() before it: it keeps every element in "
                 "memory, and of a data set without end there are ever more"),
    # Where an event loop keeps what it is asked to call.
    Thing("_scheduled", REGISTRY, library="asyncio", made_by=("call_later", "call_at"),
          also_by=("asyncio.wait_for", "asyncio.timeout", "asyncio.timeout_at")),
    Thing("_ready", REGISTRY, library="asyncio", made_by=("call_soon", "call_soon_threadsafe")),
    # Where torch keeps hooks, also in modules and tensors of the user's own.
    Thing("_backward_hooks", REGISTRY,
          made_by=("register_hook", "register_full_backward_hook", "register_backward_hook")),
    Thing("_backward_pre_hooks", REGISTRY, made_by=("register_full_backward_pre_hook",)),
    Thing("_forward_hooks", REGISTRY, made_by=("register_forward_hook",)),
    Thing("_forward_pre_hooks", REGISTRY, made_by=("register_forward_pre_hook",)),
    Thing("_post_accumulate_grad_hooks", REGISTRY, made_by=("register_post_accumulate_grad_hook",)),
    Thing("_optimizer_step_post_hooks", REGISTRY, made_by=("register_step_post_hook",)),
    Thing("_optimizer_step_pre_hooks", REGISTRY, made_by=("register_step_pre_hook",)),

    Thing("mmap.mmap", MAPPING, DESCRIPTOR), Thing("numpy.memmap", MAPPING, DESCRIPTOR),
    Thing("_io.BufferedRandom", DESCRIPTOR), Thing("_io.BufferedReader", DESCRIPTOR),
    Thing("_io.BufferedWriter", DESCRIPTOR), Thing("_io.FileIO", DESCRIPTOR, HARMLESS),
    Thing("_io.TextIOWrapper", DESCRIPTOR), Thing("multiprocessing.connection.Connection", DESCRIPTOR),
    Thing("select.epoll", DESCRIPTOR), Thing("socket.socket", DESCRIPTOR), Thing("ssl.SSLSocket", DESCRIPTOR),
    Thing("tempfile._TemporaryFileWrapper", DESCRIPTOR),
    Thing("sqlite3.Connection", DESCRIPTOR, FILLED_IN_C),
    Thing("threading.Thread", THREAD), Thing("threading.Timer", THREAD),
    Thing("asyncio.subprocess.Process", PROCESS), Thing("multiprocessing.context.ForkProcess", PROCESS),
    Thing("multiprocessing.context.ForkServerProcess", PROCESS), Thing("multiprocessing.context.Process", PROCESS),
    Thing("multiprocessing.context.SpawnProcess", PROCESS), Thing("subprocess.Popen", PROCESS),
    Thing("concurrent.futures.process.ProcessPoolExecutor", POOL),
    Thing("concurrent.futures.thread.ThreadPoolExecutor", POOL),
    Thing("multiprocessing.pool.Pool", POOL), Thing("multiprocessing.pool.ThreadPool", POOL),
    Thing("torch.utils.data.dataloader._MultiProcessingDataLoaderIter", POOL),

    Thing("sqlite3.Cursor", FILLED_IN_C), Thing("_sqlite3.Connection", FILLED_IN_C),
    Thing("ctypes.c_void_p", FILLED_IN_C), Thing("pyexpat.xmlparser", FILLED_IN_C),
    Thing("_pickle.Unpickler", FILLED_IN_C),

    Thing("_thread.lock", HARMLESS), Thing("_thread.RLock", HARMLESS), Thing("_random.Random", HARMLESS),
    Thing("object", HARMLESS), Thing("re.Pattern", HARMLESS), Thing("datetime.datetime", HARMLESS),
    Thing("random.Random", HARMLESS), Thing("datetime.timedelta", HARMLESS), Thing("datetime.date", HARMLESS),
    Thing("_struct.Struct", HARMLESS), Thing("operator.itemgetter", HARMLESS), Thing("operator.attrgetter", HARMLESS),
    Thing("_hashlib.HASH", HARMLESS), Thing("itertools.count", HARMLESS), Thing("weakref.ReferenceType", HARMLESS),
    Thing("weakref", HARMLESS), Thing("generator", HARMLESS), Thing("torch.device", HARMLESS),
    Thing("torch.dtype", HARMLESS), Thing("torch.Size", HARMLESS),
    Thing("numpy.random._generator.Generator", HARMLESS), Thing("enumerate", HARMLESS), Thing("zip", HARMLESS),
    Thing("map", HARMLESS), Thing("filter", HARMLESS),
    # All types of these modules. Snapshots do name them: how many there are may say something, their inside does not.
    # Those of _ctypes are types of types: an array type is a class, and has no memory of what is made of it.
    Thing("_ctypes.", HARMLESS), Thing("_hashlib.", HARMLESS),
    Thing("_io.", HARMLESS), Thing("_random.", HARMLESS), Thing("_socket.", HARMLESS),
    Thing("_struct.", HARMLESS), Thing("_thread.", HARMLESS),
    Thing("datetime.", HARMLESS),
    Thing("io.", HARMLESS), Thing("itertools.", HARMLESS), Thing("logging.", HARMLESS), Thing("mmap.", HARMLESS),
    Thing("numpy.", HARMLESS), Thing("random.", HARMLESS), Thing("re.", HARMLESS), Thing("select.", HARMLESS),
    Thing("socket.", HARMLESS), Thing("ssl.", HARMLESS), Thing("threading.", HARMLESS), Thing("torch.", HARMLESS),

    Thing("/datasets/arrow_dataset.py", FORKER, library="datasets"),
    Thing("/torch/utils/data/dataloader.py", FORKER, library="a DataLoader"),
    Thing("/multiprocessing/pool.py", FORKER, library="a pool"),
    Thing("/multiprocess/pool.py", FORKER, library="a pool"),
    Thing("/concurrent/futures/process.py", FORKER, library="a pool"),

    Thing("file", OPENER, made_by=("open", "NamedTemporaryFile", "memmap", "mmap", "connect", "FileIO", "File")),
    Thing("deleted-file", OPENER,
          made_by=("TemporaryFile", "SpooledTemporaryFile", "NamedTemporaryFile", "open", "mmap")),
    Thing("socket", OPENER,
          made_by=("socket", "create_connection", "socketpair", "connect", "urlopen", "Session", "Client")),
    Thing("pipe", OPENER, made_by=("pipe", "Popen", "Pipe", "Queue")),
    Thing("shared-memory", OPENER, made_by=("SharedMemory", "share_memory_", "memfd_create")),

    # The first row that fits counts, so the one that always fits comes last.
    Thing("psm_", SHARED, library="multiprocessing.shared_memory", made_by=("SharedMemory", "ShareableList")),
    Thing("torch_", SHARED, library="torch.multiprocessing", made_by=("share_memory_", "share_memory", "put", "send")),
    Thing("sem.", SHARED, library="multiprocessing",
          made_by=("Lock", "Semaphore", "Queue", "Event", "Value", "Array")),
    Thing("", SHARED, made_by=("SharedMemory", "ShareableList", "memmap", "open", "save")),
)  # fmt: skip


def all_of(kind: str) -> Iterator[Thing]:
    """The rows of one kind, in their order."""
    return (thing for thing in THINGS if kind in thing.is_)


def names_of(*kinds: str) -> frozenset[str]:
    """Names of all that is one of these."""
    return frozenset(thing.name for kind in kinds for thing in all_of(kind))


def named(kind: str, name: object) -> Thing | None:
    """The row of this name."""
    return next((thing for thing in all_of(kind) if thing.name == name), None)


HARMLESS_TYPES = frozenset(name for name in names_of(HARMLESS) if not name.endswith("."))
_HARMLESS_MODULES = tuple(sorted(name for name in names_of(HARMLESS) if name.endswith(".")))


def is_harmless(type_name: str) -> bool:
    return type_name in HARMLESS_TYPES or type_name.startswith(_HARMLESS_MODULES)
