/* The last large pieces that were asked for, by whom: in memory of the recorder's, where they are still to be read when the
 * kernel ends this process for lack of memory, which it does as the next of them is written to. */

enum { REQUESTS = 128, REQUEST_BYTES = 2048, LEAST_REQUEST_BYTES = 4 << 20 };

struct request { /* as in recorder/large_requests.py */
    uint64_t order; /* from 1; 0: none, or one that is being written */
    int64_t mono_ns;
    uint64_t bytes, start_ticks;
    int32_t pid;
    uint32_t length;
    char text[REQUEST_BYTES - 40]; /* calls as in sampler_rows, innermost first: as many as find room */
};

struct requests {
    uint64_t count;
    char filler[REQUEST_BYTES - 8];
    struct request each[REQUESTS];
};

static struct requests *requests;
static int own_pid;
static uint64_t own_start_ticks;

/* With the lock. The processes of a job write to one memory, each to a place of its own. */
static void note_request(size_t bytes, const struct stack *stack)
{
    if (!requests || bytes < LEAST_REQUEST_BYTES || getpid() != own_pid) /* a fork that is not known yet */
        return;
    uint64_t order = __atomic_add_fetch(&requests->count, 1, __ATOMIC_RELAXED);
    struct request *to = &requests->each[order % REQUESTS];
    __atomic_store_n(&to->order, 0, __ATOMIC_RELEASE);
    to->mono_ns = now_ns();
    to->bytes = bytes;
    to->start_ticks = own_start_ticks;
    to->pid = own_pid;
    to->length = 0;
    for (uint32_t i = 0; i < stack->frame_count; i++) {
        size_t length = strlen(text_bytes + stack->frames[i]) + 1;
        if (to->length + length > sizeof to->text)
            break;
        memcpy(to->text + to->length, text_bytes + stack->frames[i], length);
        to->length += (uint32_t)length;
    }
    __atomic_store_n(&to->order, order, __ATOMIC_RELEASE);
}

/* ``path``: where the recorder's memory can be opened. Nothing of it stays open. */
EXPORT void sampler_note_requests(const char *path, uint64_t start_ticks)
{
    static const char name[] = "/memfd:leakscope-requests";
    char leads_to[sizeof name];
    own_pid = getpid();
    own_start_ticks = start_ticks;
    if (requests || readlink(path, leads_to, sizeof leads_to - 1) < (ssize_t)sizeof name - 1 || memcmp(leads_to, name, sizeof name - 1))
        return; /* the recorder is gone, or not of this namespace */
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED)
        __atomic_store_n(&requests, at, __ATOMIC_RELEASE);
}
