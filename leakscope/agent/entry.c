/* Ways into the agent on which no frame of ours is seen: at the start of a process, and round functions of libraries.
 *
 * 1. This library is also a module: staged as sitecustomize.cpython-311-x86_64-linux-gnu.so and the like, it is what
 *    the interpreter finds as it starts, where its name is that of its kind of machine and libc. (Others find
 *    sitecustomize.py beside it.) Coverage, a debugger or a profiler may be set by then, by a .pth file. A module of
 *    Python would be seen by them, and coverage would ask for its source when the folder is long gone. So all that
 *    Python runs of ours runs while nobody watches this thread: who did is put back as he was.
 * 2. A function of a library that is to be watched gets a function of C in its place, which calls the original and,
 *    where that may be, one of ours before it and after it. No frame stands between the library and who called it: not
 *    in tracebacks, nor in inspect.stack(), nor for warnings' stacklevel.
 *
 * No Python.h: what is declared here is in the stable ABI of every Python from 3.8 on, or exported by all of them. The
 * names are found in the process that loads this. Whatever fails, the program goes on as without us: an exception of
 * ours is dropped, and the original is called exactly once with exactly its arguments.
 */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct object Object; /* PyObject */
typedef ptrdiff_t Size;       /* Py_ssize_t */

extern Object *PyExc_Exception;
extern Object _Py_NoneStruct;
void Py_IncRef(Object *);
void Py_DecRef(Object *);
const char *Py_GetVersion(void);
Object *PySys_GetObject(const char *); /* borrowed */
Object *PyImport_GetModuleDict(void);  /* borrowed */
Object *PyDict_New(void);
Object *PyDict_GetItemString(Object *, const char *); /* borrowed */
int PyDict_SetItemString(Object *, const char *, Object *);
int PyDict_DelItemString(Object *, const char *);
Size PySequence_Size(Object *);
Object *PySequence_GetItem(Object *, Size);
int PySequence_DelItem(Object *, Size);
int PyObject_RichCompareBool(Object *, Object *, int);
Object *PyObject_GetAttrString(Object *, const char *);
Object *PyObject_Call(Object *, Object *, Object *);
Object *PyObject_CallObject(Object *, Object *);
Object *PyObject_CallFunctionObjArgs(Object *, ...);
int PyObject_IsTrue(Object *);
int PyCallable_Check(Object *);
Object *PyLong_FromLong(long);
Object *PyUnicode_FromString(const char *);
Object *PyUnicode_FromStringAndSize(const char *, Size);
Object *PyUnicode_AsUTF8String(Object *);
char *PyBytes_AsString(Object *);
Object *PyEval_EvalCode(Object *, Object *, Object *);
int PyErr_ExceptionMatches(Object *);
Object *PyErr_Occurred(void);
void PyErr_Clear(void);
void PyErr_Fetch(Object **, Object **, Object **);
void PyErr_Restore(Object *, Object *, Object *);
Object *PyErr_SetImportError(Object *, Object *, Object *);
Object *PyModuleDef_Init(void *);
Object *PyModule_New(const char *);
Object *PyModule_GetDict(Object *); /* borrowed */
Object *PyCapsule_New(void *, const char *, void *);
void *PyCapsule_GetPointer(Object *, const char *);
Object *PyCFunction_NewEx(void *, Object *, Object *);

#define VISIBLE __attribute__((visibility("default")))
#define NONE (&_Py_NoneStruct)
#define NAME "sitecustomize"

static void let_go(Object *object) {
    if (object != NULL) Py_DecRef(object);
}

static Object *called(const char *function, Object *argument) { /* of the module sys */
    Object *found = PySys_GetObject(function);
    return found == NULL ? NULL : PyObject_CallFunctionObjArgs(found, argument, NULL);
}

/* ---- who watches this thread */

enum { TOOLS = 6 }; /* of sys.monitoring, from 3.12 on */

typedef struct {
    Object *trace, *profile;
    Object *events[TOOLS];
} Watchers;

static int is_none(Object *object) { return object == NULL || object == NONE; }

static Object *of_tool(const char *function, int tool, Object *second) {
    Object *monitoring = PySys_GetObject("monitoring");
    if (monitoring == NULL) return NULL;
    Object *found = PyObject_GetAttrString(monitoring, function), *number = PyLong_FromLong(tool), *result = NULL;
    if (found != NULL && number != NULL) result = PyObject_CallFunctionObjArgs(found, number, second, NULL);
    let_go(found);
    let_go(number);
    return result;
}

/* Put them back. What fails here would have failed for who set them. */
static void show(Watchers *seen) {
    for (int tool = 0; tool < TOOLS; tool++) {
        if (seen->events[tool] == NULL) continue;
        let_go(of_tool("set_events", tool, seen->events[tool]));
        let_go(seen->events[tool]);
    }
    if (!is_none(seen->profile)) let_go(called("setprofile", seen->profile));
    if (!is_none(seen->trace)) let_go(called("settrace", seen->trace));
    let_go(seen->profile);
    let_go(seen->trace);
    PyErr_Clear();
}

/* Whether nobody sees from here on what this thread runs. A profiler or tracer of C that cannot be set by a function of
 * Python's could not be put back: then not, and nothing of ours is to run. */
static int hide(Watchers *seen) {
    memset(seen, 0, sizeof *seen);
    seen->trace = called("gettrace", NULL);
    seen->profile = called("getprofile", NULL);
    int is_possible = seen->trace != NULL && seen->profile != NULL
        && (seen->trace == NONE || PyCallable_Check(seen->trace))
        && (seen->profile == NONE || PyCallable_Check(seen->profile));
    if (is_possible && seen->trace != NONE) let_go(called("settrace", NONE));
    if (is_possible && seen->profile != NONE) let_go(called("setprofile", NONE));
    Object *nothing = PyLong_FromLong(0);
    for (int tool = 0; is_possible && tool < TOOLS && PySys_GetObject("monitoring") != NULL; tool++) {
        Object *who = of_tool("get_tool", tool, NULL);
        if (!is_none(who)) {
            Object *events = of_tool("get_events", tool, NULL);
            if (events != NULL && PyObject_IsTrue(events) == 1) {
                seen->events[tool] = events;
                let_go(of_tool("set_events", tool, nothing));
            } else {
                let_go(events);
            }
        }
        let_go(who);
    }
    let_go(nothing);
    if (PyErr_Occurred() != NULL) is_possible = 0;
    if (!is_possible) show(seen);
    return is_possible;
}

/* ---- the start of a process */

/* Execute boot/sitecustomize.py as no module, and call its _start(). */
static void start(const char *folder) {
    Object *importer = PyDict_GetItemString(PyImport_GetModuleDict(), "_frozen_importlib_external");
    Object *loaders = importer == NULL ? NULL : PyObject_GetAttrString(importer, "SourceFileLoader");
    Object *name = PyUnicode_FromString("_leakscope_entrance"), *file = NULL, *loader = NULL, *get_code = NULL;
    Object *code = NULL, *space = PyDict_New(), *done = NULL;
    char *path = malloc(strlen(folder) + sizeof "/" NAME ".py");
    if (path != NULL) {
        strcpy(path, folder);
        strcat(path, "/" NAME ".py");
        file = PyUnicode_FromString(path);
    }
    if (loaders != NULL && name != NULL && file != NULL)
        loader = PyObject_CallFunctionObjArgs(loaders, name, file, NULL);
    if (loader != NULL) get_code = PyObject_GetAttrString(loader, "get_code");
    if (get_code != NULL) code = PyObject_CallFunctionObjArgs(get_code, name, NULL);
    Object *builtins = PyDict_GetItemString(PyImport_GetModuleDict(), "builtins");
    if (code != NULL && space != NULL && builtins != NULL && PyDict_SetItemString(space, "__name__", name) == 0
        && PyDict_SetItemString(space, "__file__", file) == 0
        && PyDict_SetItemString(space, "__builtins__", builtins) == 0) {
        done = PyEval_EvalCode(code, space, space);
        Object *begin = done == NULL ? NULL : PyDict_GetItemString(space, "_start");
        if (begin != NULL) let_go(PyObject_CallObject(begin, NULL));
    }
    Object *all[] = {loaders, name, file, loader, get_code, code, space, done};
    /* In the order in which nothing can raise: what is raised by now must stay. */
    Object *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) let_go(all[at]);
    PyErr_Restore(kind, value, trace);
    free(path);
}

/* Our folder is on the path no more: what the program imports from now on is looked for as without us. */
static void leave_path(Object *folder, const char *text) {
    Object *path = PySys_GetObject("path"), *cache = PySys_GetObject("path_importer_cache");
    for (Size at = path == NULL ? -1 : PySequence_Size(path) - 1; at >= 0; at--) {
        Object *entry = PySequence_GetItem(path, at);
        if (entry != NULL && PyObject_RichCompareBool(entry, folder, 2 /* == */) == 1) PySequence_DelItem(path, at);
        let_go(entry);
    }
    if (cache != NULL) PyDict_DelItemString(cache, text);
    PyErr_Clear();
}

/* What the statement "import sitecustomize" finds without us; nothing is timed or printed of it but by itself. */
static void make_way(void) {
    Object *modules = PyImport_GetModuleDict();
    Object *importer = PyDict_GetItemString(modules, "_frozen_importlib");
    Object *builtins = PyDict_GetItemString(modules, "builtins");
    Object *find = importer == NULL ? NULL : PyObject_GetAttrString(importer, "_find_and_load");
    Object *statement = builtins == NULL ? NULL : PyObject_GetAttrString(builtins, "__import__");
    Object *name = PyUnicode_FromString(NAME), *theirs = NULL;
    if (find != NULL && statement != NULL && name != NULL)
        theirs = PyObject_CallFunctionObjArgs(find, name, statement, NULL);
    /* It is there, and sys.modules has it. There is no module of ours: site, which asks, takes that for an answer. */
    if (theirs != NULL) {
        Object *text = PyUnicode_FromString("No module named '" NAME "'");
        if (text != NULL) PyErr_SetImportError(text, name, NULL);
        let_go(text);
    }
    let_go(find);
    let_go(statement);
    let_go(name);
    let_go(theirs);
}

static Object *begin(Object *spec, void *definition) {
    static __thread int is_under_way;
    (void)definition;
    Object *origin = PyObject_GetAttrString(spec, "origin");
    Object *encoded = origin == NULL ? NULL : PyUnicode_AsUTF8String(origin);
    char *text = encoded == NULL ? NULL : PyBytes_AsString(encoded);
    char *slash = text == NULL ? NULL : strrchr(text, '/');
    if (slash == NULL || is_under_way) {
        PyErr_Clear();
        Object *name = PyUnicode_FromString(NAME);
        if (name != NULL) PyErr_SetImportError(name, name, NULL);
        let_go(name);
        let_go(origin);
        let_go(encoded);
        return NULL;
    }
    *slash = '\0';
    is_under_way = 1;
    Object *folder = PyUnicode_FromString(text);
    Watchers seen;
    Object *flags = PySys_GetObject("flags");
    Object *verbose = flags == NULL ? NULL : PyObject_GetAttrString(flags, "verbose");
    if (verbose != NULL && PyObject_IsTrue(verbose) == 0 && hide(&seen)) { /* -v: what is loaded would be listed */
        start(text);
        if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
        Object *kind, *value, *trace; /* an interrupt is the program's */
        PyErr_Fetch(&kind, &value, &trace);
        show(&seen);
        PyErr_Restore(kind, value, trace);
    }
    let_go(verbose);
    if (PyErr_Occurred() == NULL) {
        if (folder != NULL) leave_path(folder, text);
        make_way();
    }
    is_under_way = 0;
    let_go(folder);
    let_go(origin);
    let_go(encoded);
    return NULL; /* always with an exception: that of the import, or that there is no module of ours */
}

typedef struct {
    int slot;
    void *value;
} Slot;

typedef struct {
    Size references;
    void *type, *init;
    Size index;
    void *copy;
    const char *name, *doc;
    Size size;
    void *methods;
    Slot *slots;
    void *traverse, *clear, *free;
} ModuleDefinition;

VISIBLE Object *PyInit_sitecustomize(void) {
    static Slot slots[] = {{1 /* Py_mod_create */, begin}, {0, NULL}, {0, NULL}};
    static ModuleDefinition definition = {.references = 1, .name = NAME, .slots = slots};
    const char *version = Py_GetVersion(); /* "3.12.1 (main, ..." */
    if (strncmp(version, "3.", 2) == 0 && atoi(version + 2) >= 12) {
        slots[1].slot = 3; /* Py_mod_multiple_interpreters: nothing of ours is shared between them */
        slots[1].value = (void *)2;
    }
    return PyModuleDef_Init(&definition);
}

/* ---- round a function */

typedef struct {
    const char *name;
    Object *(*function)(Object *, Object *, Object *);
    int flags;
    const char *doc;
} MethodDefinition;

typedef struct {
    MethodDefinition definition;
    Object *original, *may_enter, *before, *after;
    int number;
} Round;

enum { ROUNDS = 16 }; /* more than there are; of each thread, how deep it is in each and how many calls that were */
static __thread long depth_in[ROUNDS], calls_in[ROUNDS];
static int round_count;

/* Call one of ours with up to three things, where it may be; 0 if something was raised in it that must go on its way. */
static int enter(Round *round, Object *ours, Object *first, Object *second, Object *third) {
    if (ours == NONE) return 1;
    Object *may = PyObject_CallObject(round->may_enter, NULL);
    int is_open = may != NULL && PyObject_IsTrue(may) == 1;
    let_go(may);
    if (!is_open) {
        PyErr_Clear();
        return 1;
    }
    Object *done = PyObject_CallFunctionObjArgs(ours, first, second, third, NULL);
    let_go(done);
    return done != NULL;
}

/* before(), the original, after(arguments, result or None, calls): both once for the outermost of calls one in the
 * other, of which there were so many. */
static Object *go_round(Object *self, Object *arguments, Object *words) {
    Object *capsule = PyDict_GetItemString(PyModule_GetDict(self), "round");
    Round *round = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
    if (round == NULL) return NULL;
    long *depth = &depth_in[round->number], *count = &calls_in[round->number];
    int is_outermost = *depth == 0;
    if (is_outermost) *count = 0;
    if (is_outermost && !enter(round, round->before, NULL, NULL, NULL)) return NULL;
    (*depth)++;
    (*count)++;
    Object *result = PyObject_Call(round->original, arguments, words);
    (*depth)--;
    if (!is_outermost) return result;
    Object *kind, *value, *trace, *calls;
    PyErr_Fetch(&kind, &value, &trace);
    calls = PyLong_FromLong(*count);
    if (calls != NULL && !enter(round, round->after, arguments, result == NULL ? NONE : result, calls)
        && result != NULL) { /* an exception of a signal's handler: with one under way that goes on */
        let_go(result);
        let_go(calls);
        return NULL;
    }
    let_go(calls);
    PyErr_Clear();
    PyErr_Restore(kind, value, trace);
    return result;
}

static char *copied(const char *text) {
    char *copy = text == NULL ? NULL : malloc(strlen(text) + 1);
    return copy == NULL ? NULL : strcpy(copy, text);
}

/* A function of C that stands for original, with its name; before and after may be None. It is never freed. NULL without
 * an exception, where there is no memory for it, is one of ctypes. */
VISIBLE Object *leakscope_round(
    Object *original, Object *may_enter, Object *before, Object *after, const char *name, const char *doc,
    Object *module) {
    Round *round = round_count < ROUNDS ? calloc(1, sizeof *round) : NULL;
    Object *self = PyModule_New(name), *capsule = round == NULL ? NULL : PyCapsule_New(round, NULL, NULL);
    if (self == NULL || capsule == NULL || PyDict_SetItemString(PyModule_GetDict(self), "round", capsule) != 0)
        return NULL;
    Py_DecRef(capsule);
    round->definition = (MethodDefinition){copied(name), go_round, 1 | 2 /* positional and by name */, copied(doc)};
    Object *kept[] = {original, may_enter, before, after};
    for (size_t at = 0; at < sizeof kept / sizeof *kept; at++) Py_IncRef(kept[at]);
    round->number = round_count++;
    round->original = original;
    round->may_enter = may_enter;
    round->before = before;
    round->after = after;
    return PyCFunction_NewEx(&round->definition, self, module);
}
