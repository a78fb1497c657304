/* Tells of each function of Python that begins while a frame of the agent is on the stack of its thread.
 *
 * A profile function of C with no object of its own: nothing that Python shows says that it is set, and the agent goes
 * on as if nobody watched. Needs no headers: what it calls is the same in every CPython from 3.8 to 3.14.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct _object PyObject;
typedef int (*profile_function)(PyObject *, PyObject *, int, PyObject *);

extern PyObject *PyObject_GetAttrString(PyObject *, const char *);
extern const char *PyUnicode_AsUTF8(PyObject *);
extern void Py_DecRef(PyObject *);
extern void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
extern void PyErr_Restore(PyObject *, PyObject *, PyObject *);
extern void PyEval_SetProfile(profile_function, PyObject *);
extern void *PyThreadState_Get(void);
extern void *PyThreadState_Swap(void *);
extern void *PyInterpreterState_Main(void);
extern void *PyInterpreterState_ThreadHead(void *);
extern void *PyThreadState_Next(void *);

enum { CALL = 0, MOST_BYTES = 1 << 16 };
static char agent[4096];
static char told[MOST_BYTES];
static long begun;

static void text_of(PyObject *code, const char *attribute, char *text, size_t size)
{
    PyObject *value = PyObject_GetAttrString(code, attribute);
    const char *read = value ? PyUnicode_AsUTF8(value) : NULL;
    snprintf(text, size, "%s", read ? read : "?");
    if (value)
        Py_DecRef(value);
}

static void describe(PyObject *frame, char *file, char *name, size_t size)
{
    PyObject *code = PyObject_GetAttrString(frame, "f_code");
    text_of(code, "co_filename", file, size);
    text_of(code, "co_name", name, size);
    Py_DecRef(code);
}

static void tell(const char *file, const char *name, const char *file_of_ours, const char *name_of_ours)
{
    char line[2048];
    snprintf(line, sizeof line, "%.500s %.200s, in %.500s %.200s\n", file, name, file_of_ours + strlen(agent),
             name_of_ours);
    if (!strstr(told, line) && strlen(told) + strlen(line) < MOST_BYTES)
        strcat(told, line);
}

static int on_event(PyObject *self, PyObject *frame, int what, PyObject *argument)
{
    char file[1024], name[256], other_file[1024], other_name[256];
    PyObject *kind, *value, *trace, *back = NULL;
    if (what != CALL)
        return 0;
    PyErr_Fetch(&kind, &value, &trace);
    describe(frame, file, name, sizeof name);
    if (strncmp(file, agent, strlen(agent)) == 0) {
        begun++;
    } else {
        for (PyObject *above = PyObject_GetAttrString(frame, "f_back"); above; above = back) {
            back = PyObject_GetAttrString(above, "f_back");
            if (!back) { /* None is the end, and has none: an AttributeError */
                Py_DecRef(above);
                PyObject *a, *b, *c;
                PyErr_Fetch(&a, &b, &c);
                Py_DecRef(a);
                if (b) Py_DecRef(b);
                if (c) Py_DecRef(c);
                break;
            }
            describe(above, other_file, other_name, sizeof other_name);
            Py_DecRef(above);
            if (strncmp(other_file, agent, strlen(agent)) == 0) {
                tell(file, name, other_file, other_name);
                Py_DecRef(back);
                break;
            }
        }
    }
    PyErr_Restore(kind, value, trace);
    return 0;
}

/* To be called with the lock of the interpreter held: every thread that is there is watched from now on. */
void watch(const char *folder)
{
    snprintf(agent, sizeof agent, "%s", folder);
    void (*of_all)(profile_function, PyObject *) = dlsym(RTLD_DEFAULT, "PyEval_SetProfileAllThreads");
    int (*of_one)(void *, profile_function, PyObject *) = dlsym(RTLD_DEFAULT, "_PyEval_SetProfile");
    if (of_all) {
        of_all(on_event, NULL);
        return;
    }
    void *own = PyThreadState_Get();
    for (void *state = PyInterpreterState_ThreadHead(PyInterpreterState_Main()); state;
         state = PyThreadState_Next(state)) {
        if (of_one) {
            of_one(state, on_event, NULL);
        } else {
            PyThreadState_Swap(state);
            PyEval_SetProfile(on_event, NULL);
            PyThreadState_Swap(own);
        }
    }
}

const char *what_was_told(void) { return told; }

long how_many_began(void) { return begun; }
