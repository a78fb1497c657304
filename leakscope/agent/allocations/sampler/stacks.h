/* Who asks: the Python functions of this thread, and the words of its C stack. */

enum { COPIED_WORDS = 512, COPIES = 16, MOST_DEPTH = 400 };

static void *(*this_thread_or_null)(void);
static int readers; /* threads that look at their frames just now */
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

/* Innermost first. The state of a thread is freed after it has ended, or as Python ends: that is said before. */
static int calls_of_this_thread(struct call *calls, uint64_t *key)
{
    void *(*find)(void) = __atomic_load_n(&this_thread_or_null, __ATOMIC_SEQ_CST);
    void *thread = find && L.thread_frame && L.code_file ? find() : NULL;
    int count = 0;
    const char *at = thread ? first_frame(thread) : NULL;
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

/* "file\nline\nfirst line of the function\nname"; nothing where it is the recorder's. */
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
    length += (size_t)sprintf(to + length, "\n%d\n%d\n", line > 0 ? line : first, first);
    length += put_printable(to + length, LONGEST_FUNCTION, (object *)pointer_at(call->code, L.code_name));
    to[length++] = 0;
    known->at = text_used;
    text_used += (uint32_t)length;
    return known->at;
}

/* Words from ``from`` on that are certainly of this thread's stack. The state of a thread lies behind its stack. */
static size_t words_of_stack(const uint64_t *from)
{
    extern void *__libc_stack_end;
    uintptr_t begin = (uintptr_t)from, ends[] = {(uintptr_t)__builtin_thread_pointer(), (uintptr_t)__libc_stack_end};
    size_t most = 0;
    for (int i = 0; i < 2; i++)
        if (ends[i] > begin && ends[i] - begin < 1ul << 26 && (ends[i] - begin) / 8 > most)
            most = (ends[i] - begin) / 8;
    return most < COPIED_WORDS ? most : COPIED_WORDS;
}

static void copy_native_stack(uint32_t number, uintptr_t caller, const uint64_t *from)
{
    for (int i = 0; i < COPIES; i++) {
        struct copy *copy = &copies[i];
        if (__atomic_load_n(&copy->key, __ATOMIC_ACQUIRE))
            continue;
        copy->count = (uint32_t)words_of_stack(from);
        memcpy(copy->words, from, 8ul * copy->count);
        copy->stack = number;
        copy->caller = caller;
        stacks[number].is_resolved = 1;
        __atomic_store_n(&copy->key, stacks[number].key, __ATOMIC_RELEASE); /* who reads it holds no lock */
        return;
    }
}

/* With the lock: the number of the stack, UINT32_MAX where there is no room. */
static uint32_t stack_number(uint64_t key, const struct call *calls, int count, int kind)
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
    stack->kind = (uint32_t)kind;
    for (int i = 0; i < count; i++) {
        uint32_t text = text_of_call(&calls[i]);
        if (text)
            stack->frames[stack->frame_count++] = text;
    }
    stack_index[at] = (uint16_t)(number + 1);
    return number;
}
