/* Who asks: the Python functions of this thread, and the words of its C stack. */

enum { COPIED_WORDS = 512, COPIES = 16, MOST_DEPTH = 400, MOST_TRIES = 8 };

static char own_folder[1024]; /* with a slash: of the recorder */

struct call {
    const char *frame;
    const object *code;
    uint64_t key;
};

/* Native stacks that wait for the recorder's thread to say what they are. */
struct copy {
    uint64_t key; /* of the stack; 0: free */
    uint32_t stack, count;
    uintptr_t caller;
    uint64_t words[COPIED_WORDS];
};

static struct copy copies[COPIES];
static struct call calls[MOST_FRAMES]; /* with the lock: not on the job's stack, which may be a small one */
static uint64_t elsewhere_count; /* stacks of which only the caller is known: not the thread's own */
static uint64_t cramped_count;   /* draws that were due where the stack had no room for one */
static uint64_t unknown_count;   /* samples without Python functions: the state may not be there */

/* With the lock: fills ``calls``, innermost first. Frames are safe to read while the state is (states.h): those of a
 * thread that runs are changed by itself alone, and it stands here. Up to 3.10 they are objects, which the calls that run
 * hold; since 3.11 they lie in memory of the state's, and on the stack of the C function that runs them, which has not
 * returned. A frame holds its code, a code its texts. */
static int calls_of(void *state, uint64_t *key)
{
    int count = 0;
    const char *at = state && L.thread_frame && L.code_file ? first_frame(state) : NULL;
    for (int depth = 0; at && depth < MOST_DEPTH && count < MOST_FRAMES; depth++) {
        const object *code = (object *)reference_at(at, L.frame_code);
        if (is_of_python(at) && code && code->type == L.code) {
            uint64_t where = L.version < VERSION(3, 11) ? (uint64_t)L.line_of_frame((object *)at) : word_at(at, L.frame_at);
            uint64_t what = word_at(code, L.code_file) ^ word_at(code, L.code_name) << 1 ^ (uint64_t)half_at(code, L.code_line);
            uint64_t one = mixed(mixed((uint64_t)(uintptr_t)code ^ where << 17) + what) | 1;
            calls[count++] = (struct call){at, code, one};
            *key = mixed(*key ^ one);
        }
        at = pointer_at(at, L.version < VERSION(3, 11) ? L.frame_back : L.frame_before);
    }
    return count;
}

/* What draws call in Python is called before, on the recorder's own thread: as they first call something of another
 * library's, the loader looks that up, and takes three kilobytes of the stack. */
static void call_beforehand(void)
{
    uint64_t key = 0;
    if (this_thread_or_null && calls_of(this_thread_or_null(), &key))
        (void)line_at(calls[0].frame, (object *)calls[0].code);
}

/* With the lock: the number of a text that is known by ``key``; 0: not known yet. */
static struct text *text_known_by(uint64_t key)
{
    uint32_t at = (uint32_t)key % FRAME_INDEX;
    while (texts[at].key && texts[at].key != key)
        at = (at + 1) % FRAME_INDEX;
    return &texts[at];
}

static int has_room_for_text(size_t most)
{
    return text_count < FRAMES && text_used + most < TEXT_BYTES;
}

/* "\n" and the number: printf takes a kilobyte or two of the stack. */
static size_t put_number(char *to, int number)
{
    char digits[12];
    size_t count = 0, length = 0;
    unsigned left = number < 0 ? 0u - (unsigned)number : (unsigned)number;
    do
        digits[count++] = (char)('0' + left % 10);
    while (left /= 10);
    to[length++] = '\n';
    if (number < 0)
        to[length++] = '-';
    while (count)
        to[length++] = digits[--count];
    return length;
}

/* "file\nline\nfirst line of the function\nname"; nothing where it is the recorder's. With the state being read. */
static uint32_t text_of_call(const struct call *call)
{
    enum { LONGEST_FILE = 600, LONGEST_FUNCTION = 200 };
    struct text *known = text_known_by(call->key);
    if (known->key)
        return known->at;
    if (!has_room_for_text(LONGEST_FILE + LONGEST_FUNCTION + 64))
        return 0;
    char *to = text_bytes + text_used;
    size_t length = put_printable(to, LONGEST_FILE, (object *)pointer_at(call->code, L.code_file)), own = strlen(own_folder);
    known->key = call->key;
    text_count++;
    if (own && length > own && !memcmp(to, own_folder, own))
        return known->at = 0;
    int first = half_at(call->code, L.code_line), line = line_at(call->frame, (object *)call->code);
    length += put_number(to + length, line > 0 ? line : first);
    length += put_number(to + length, first);
    to[length++] = '\n';
    length += put_printable(to + length, LONGEST_FUNCTION, (object *)pointer_at(call->code, L.code_name));
    to[length++] = 0;
    known->at = text_used;
    text_used += (uint32_t)length;
    return known->at;
}

/* ``from``: a frame's address. What lies from there to the end of the thread's own stack is there: functions that have
 * not returned stand on it. Elsewhere only the frame itself is known to be. */
static size_t words_of_stack(const uint64_t *from, const struct bounds *own)
{
    uintptr_t begin = (uintptr_t)from;
    if (begin % 8 || !own->low || begin < own->low || begin >= own->high)
        return 0;
    size_t most = (own->high - begin) / 8;
    return most < COPIED_WORDS ? most : COPIED_WORDS;
}

/* Functions of the job's own may be made with AddressSanitizer: what it keeps from being read lies between their
 * variables, and is as much stack as these. */
__attribute__((no_sanitize("address"))) static void copy_words(uint64_t *to, const volatile uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = from[i];
}

/* With the lock. */
static void copy_native_stack(uint32_t number, uintptr_t caller, const uint64_t *from)
{
    struct bounds own = own_stack();
    size_t count = words_of_stack(from, &own);
    stacks[number].caller = caller;
    if (!count && own.is_of_main) {
        __atomic_store_n(&is_main_wanted, 1, __ATOMIC_RELEASE);
        if (stacks[number].tries++ < MOST_TRIES)
            return; /* it may have become larger: the next sample after a tick can tell */
    }
    for (int i = 0; i < COPIES; i++) {
        struct copy *copy = &copies[i];
        if (__atomic_load_n(&copy->key, __ATOMIC_ACQUIRE))
            continue;
        copy->count = (uint32_t)count;
        copy_words(copy->words, from, count);
        copy->stack = number;
        copy->caller = caller;
        elsewhere_count += !count;
        stacks[number].is_resolved = 1;
        __atomic_store_n(&copy->key, stacks[number].key, __ATOMIC_RELEASE); /* who reads it holds no lock */
        return;
    }
}

/* With the lock: the number of the stack, UINT32_MAX where there is no room. */
static uint32_t stack_number(uint64_t key, int count, int kind)
{
    uint32_t at = (uint32_t)key % STACK_INDEX;
    while (stack_index[at] && stacks[stack_index[at] - 1].key != key)
        at = (at + 1) % STACK_INDEX;
    if (stack_index[at])
        return stack_index[at] - 1u;
    uint32_t number = stack_count;
    if (stack_count == STACKS) {
        drop_idle_stacks();
        for (number = 0; number < STACKS && stacks[number].key; number++)
            ;
        if (number == STACKS)
            return NONE;
        for (at = (uint32_t)key % STACK_INDEX; stack_index[at]; at = (at + 1) % STACK_INDEX)
            ;
    } else
        stack_count++;
    struct stack *stack = &stacks[number];
    memset(stack, 0, sizeof *stack);
    stack->key = key;
    stack->kind = (uint16_t)kind;
    for (int i = 0; i < count; i++) {
        uint32_t text = text_of_call(&calls[i]);
        if (text)
            stack->frames[stack->frame_count++] = text;
    }
    stack_index[at] = (uint16_t)(number + 1);
    return number;
}
