/* The command `leakscope`: begins Python by `-E`, so that nothing of the user's is asked even before our first line.
 *
 * A script that the installer makes is begun by Python itself, which has by then obeyed PYTHONHOME, PYTHONVERBOSE and
 * PYTHONPATH, with a sitecustomize there. They are meant for the job, and stay in the environment for it. Which Python
 * it is stands in the first lines of that script: it lies beside this program as leakscope-python. No shell does this:
 * it would drop variables whose names it does not like, and add its own.
 */

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRIPT "leakscope-python"
enum { HEAD = 8192, FAILED = 125 };

/* The interpreter in "#!/path/python", or, where the path is long or has a blank, in "'''exec' "/path/python" "$0" ...". */
static char *interpreter(char *head) {
    if (strncmp(head, "#!", 2) != 0) return NULL;
    char *path = head + 2, *end = strchr(path, '\n');
    if (end == NULL) return NULL;
    if (strncmp(path, "/bin/sh", 7) == 0) {
        path = strstr(end + 1, "exec' ");
        if (path == NULL) return NULL;
        path += strlen("exec' ");
        char quote = *path == '"' ? '"' : ' ';
        path += quote == '"';
        end = strchr(path, quote);
        if (end == NULL) return NULL;
    }
    while (end > path && (end[-1] == '\r' || end[-1] == ' ')) end--;
    *end = '\0';
    return *path == '/' ? path : NULL;
}

/* What to run: the package below the folder that this program was installed into, where there is one, since that folder
 * may be on PYTHONPATH alone (pip install --target, --prefix); else the script, which Python finds its own package for. */
static const char *program(const char *folder, const char *script) {
    static const char *const places[] = {"/../leakscope/__main__.py",
                                         "/../lib*/python3.*/*-packages/leakscope/__main__.py"};
    static char pattern[2 * PATH_MAX];
    static glob_t found;
    for (size_t at = 0; at < sizeof places / sizeof *places; at++) {
        snprintf(pattern, sizeof pattern, "%s%s", folder, places[at]);
        if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1) return found.gl_pathv[0];
    }
    return script;
}

int main(int count, char **words) {
    static char own[PATH_MAX], head[HEAD];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - sizeof SCRIPT);
    char *slash = length > 0 ? (own[length] = '\0', strrchr(own, '/')) : NULL;
    char **all = calloc((size_t)count + 3, sizeof *all);
    if (slash != NULL && all != NULL) {
        strcpy(slash + 1, SCRIPT);
        FILE *script = fopen(own, "re");
        size_t read = script == NULL ? 0 : fread(head, 1, sizeof head - 1, script);
        if (script != NULL) fclose(script);
        char *python = read == 0 ? NULL : interpreter(head);
        if (python != NULL) {
            static char folder[PATH_MAX];
            memcpy(folder, own, (size_t)(slash - own));
            all[0] = python;
            all[1] = "-EB";
            all[2] = (char *)program(folder, own);
            for (int at = 1; at < count; at++) all[at + 2] = words[at];
            execv(python, all);
            fprintf(stderr, "leakscope: cannot run %s: %s\n", python, strerror(errno));
            return FAILED;
        }
    }
    fprintf(stderr, "leakscope: %s is not beside this program, or names no Python: install leakscope again\n", SCRIPT);
    return FAILED;
}
