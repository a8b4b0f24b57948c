/* A minimal WebSocket relay: one thread, epoll, no library.
 *
 * Connections are paired in the order in which their handshakes complete, and each message is forwarded to the partner
 * only. A frame is unmasked where it lies in the one input buffer, gets its header in place of the old one, which is
 * four bytes longer, and leaves from there; a large one is forwarded as it comes. What the partner does not take at once
 * waits in its queue, and until that is empty its partner is not read.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    INPUT = 256 * 1024,          /* read at once, in bytes */
    MAX_REQUEST = 8 * 1024,      /* opening handshake, in bytes */
    MAX_CONTROL = 125,           /* payload of a control frame, in bytes */
    MAX_MESSAGE = 16 << 20,      /* in bytes */
    MAX_OWN_BACKLOG = 64 * 1024, /* answers that may wait before their own connection is no longer read, in bytes */
    CLOSE_GRACE_MS = 1000,       /* for the other end to answer a close */
    EVENTS = 256,
};

enum { CONTINUATION = 0x0, CLOSE = 0x8, PING = 0x9, PONG = 0xA, FIN = 0x80 };
enum { NORMAL = 1000, GOING_AWAY = 1001, PROTOCOL_ERROR = 1002, TOO_BIG = 1009 };

struct connection {
    int fd;
    enum { HANDSHAKE, OPEN, CLOSING, GONE } phase;
    struct connection *partner;
    struct connection *next; /* in the list of those that close, or of those to be freed */
    uint64_t left;           /* of the current data frame, in bytes */
    uint64_t message;        /* of the current message so far, in bytes */
    uint8_t key[4];          /* turned to the next byte */
    bool fragmented;         /* a message has begun whose last frame has not come */
    bool to_nobody;          /* it began before there was a partner */
    bool last_words;         /* the queue ends the connection */
    uint8_t *spill;          /* a request, header or control frame whose rest is to come */
    size_t spilled;
    uint8_t *queue; /* what the other end has not taken yet */
    size_t queued, sent, room;
    uint8_t pong[2 + MAX_CONTROL]; /* the answer to a ping that came while a frame was being forwarded to it */
    size_t pong_len;
    uint32_t watched;
    uint64_t until_ms; /* when to give up on a connection that closes */
};

static int poller;
static struct connection *waiting, *closing, *graveyard;
static uint8_t input[INPUT + MAX_REQUEST];

static void frames(struct connection *c, size_t at, size_t end);

static void die(const char *what)
{
    fprintf(stderr, "wsrelay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *must(void *memory)
{
    if (!memory)
        die("memory");
    return memory;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- Connections ------------------------------------------------------------------------------------------------ */

static size_t backlog(const struct connection *c) { return c->queued - c->sent; }

/* Whether a frame is being forwarded from it, inside which nothing else may be sent to its partner. */
static bool mid_frame(const struct connection *c) { return c && c->left > 0 && !c->to_nobody; }

static void watch(struct connection *c)
{
    struct connection *both[2] = {c, c->partner};
    for (int i = 0; i < 2; i++) {
        struct connection *one = both[i];
        if (!one || one->phase == GONE)
            continue;
        bool partner_is_full = one->phase == OPEN && one->partner && backlog(one->partner) > 0;
        uint32_t wanted = backlog(one) > 0 ? EPOLLOUT : 0;
        if (!partner_is_full && backlog(one) <= MAX_OWN_BACKLOG)
            wanted |= EPOLLIN;
        if (wanted != one->watched) {
            struct epoll_event event = {.events = wanted, .data.ptr = one};
            if (epoll_ctl(poller, EPOLL_CTL_MOD, one->fd, &event) < 0)
                die("epoll_ctl");
            one->watched = wanted;
        }
    }
}

/* Frees a connection after the current events, which may still name it. */
static void forget(struct connection *c)
{
    if (c->phase == GONE)
        return;
    bool listed = c->phase == CLOSING;
    c->phase = GONE;
    close(c->fd);
    free(c->queue);
    free(c->spill);
    c->queue = c->spill = NULL;
    c->queued = c->sent = c->spilled = 0;
    if (!listed) {
        c->next = graveyard;
        graveyard = c;
    }
}

static bool flush(struct connection *c)
{
    while (backlog(c) > 0) {
        ssize_t n = send(c->fd, c->queue + c->sent, backlog(c), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        c->sent += (size_t)n;
    }
    free(c->queue);
    c->queue = NULL;
    c->queued = c->sent = c->room = 0;
    return !c->last_words || shutdown(c->fd, SHUT_WR) == 0;
}

/* Sends what goes at once and queues the rest. */
static bool push(struct connection *c, const uint8_t *bytes, size_t len)
{
    if (backlog(c) == 0) {
        ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n > 0)
            bytes += n, len -= (size_t)n;
    }
    if (len > 0) {
        if (c->queued + len > c->room) {
            c->room = (c->queued + len) * 2;
            c->queue = must(realloc(c->queue, c->room));
        }
        memcpy(c->queue + c->queued, bytes, len);
        c->queued += len;
    }
    return true;
}

/* Says goodbye; without a code where a frame is cut off and no close would be understood. */
static void say_goodbye(struct connection *c, int code)
{
    uint8_t frame[4] = {FIN | CLOSE, 2, (uint8_t)(code >> 8), (uint8_t)code};
    if (c->phase == GONE || c->phase == CLOSING)
        return;
    bool ok = code == 0 || push(c, frame, sizeof frame);
    c->last_words = true;
    c->pong_len = 0;
    c->spilled = 0;
    if (!ok || !flush(c)) {
        forget(c);
        return;
    }
    c->phase = CLOSING;
    c->until_ms = now_ms() + CLOSE_GRACE_MS;
    c->next = closing;
    closing = c;
    watch(c);
}

static struct connection *part(struct connection *c)
{
    struct connection *partner = c->partner;
    if (waiting == c)
        waiting = NULL;
    if (partner)
        partner->partner = NULL;
    c->partner = NULL;
    return partner;
}

/* It is gone without a word, and its partner goes with it. */
static void lost(struct connection *c)
{
    struct connection *partner = part(c);
    bool cut = mid_frame(c);
    forget(c);
    if (partner)
        say_goodbye(partner, cut ? 0 : GOING_AWAY);
}

static void end_pair(struct connection *c, int code)
{
    struct connection *partner = part(c);
    bool cut_here = mid_frame(partner), cut_there = mid_frame(c);
    if (partner)
        say_goodbye(partner, cut_there ? 0 : code == NORMAL ? NORMAL : GOING_AWAY);
    say_goodbye(c, cut_here ? 0 : code);
}

/* Sends to a connection; false when that ended it. */
static bool deliver(struct connection *c, const uint8_t *bytes, size_t len)
{
    if (!push(c, bytes, len)) {
        lost(c);
        return false;
    }
    if (backlog(c) > 0)
        watch(c);
    return true;
}

/* Sends a stretch of the input to the partner; false when the sender is gone too after that. */
static bool forward(struct connection *c, size_t from, size_t to)
{
    if (from < to && c->partner)
        deliver(c->partner, input + from, to - from);
    return c->phase == OPEN;
}

static void keep(struct connection *c, size_t from, size_t to)
{
    if (to > from) {
        c->spill = must(malloc(to - from));
        memcpy(c->spill, input + from, to - from);
        c->spilled = to - from;
    }
}

/* --- Opening handshake (RFC 6455, section 4.2) ------------------------------------------------------------------ */

static uint32_t rotate(uint32_t x, int by) { return x << by | x >> (32 - by); }

/* SHA-1 of a short text (RFC 3174). */
static void sha1(const char *text, size_t len, uint8_t digest[20])
{
    uint8_t data[192] = {0};
    uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    size_t padded = (len + 9 + 63) / 64 * 64;
    memcpy(data, text, len);
    data[len] = 0x80;
    for (int i = 0; i < 8; i++)
        data[padded - 1 - (size_t)i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
    for (size_t block = 0; block < padded; block += 64) {
        uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
        for (int t = 0; t < 80; t++) {
            const uint8_t *p = data + block + 4 * t;
            w[t] = t < 16 ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
                          : rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
            uint32_t f = t < 20   ? ((b & c) | (~b & d)) + 0x5A827999
                         : t < 40 ? (b ^ c ^ d) + 0x6ED9EBA1
                         : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDC
                                  : (b ^ c ^ d) + 0xCA62C1D6;
            uint32_t next = rotate(a, 5) + f + e + w[t];
            e = d, d = c, c = rotate(b, 30), b = a, a = next;
        }
        h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
    }
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static void accept_key(const char *key, size_t len, char out[29])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[128];
    uint8_t digest[21] = {0};
    int n = snprintf(text, sizeof text, "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", (int)len, key);
    sha1(text, (size_t)n, digest);
    for (int i = 0; i < 7; i++) {
        uint32_t three = (uint32_t)digest[3 * i] << 16 | (uint32_t)digest[3 * i + 1] << 8 | digest[3 * i + 2];
        for (int j = 0; j < 4; j++)
            out[4 * i + j] = alphabet[three >> (18 - 6 * j) & 63];
    }
    out[27] = '=';
    out[28] = 0;
}

/* The value of a header, or NULL. `request` is a string that ends with an empty line. */
static const char *header(const char *request, const char *name, size_t *len)
{
    size_t name_len = strlen(name);
    for (const char *line = strstr(request, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
            const char *value = line + name_len + 1;
            value += strspn(value, " \t");
            *len = strcspn(value, "\r\n");
            while (*len > 0 && (value[*len - 1] == ' ' || value[*len - 1] == '\t'))
                --*len;
            return value;
        }
    }
    return NULL;
}

/* Whether a header lists a word. */
static bool lists(const char *request, const char *name, const char *word)
{
    size_t len, word_len = strlen(word);
    const char *value = header(request, name, &len);
    for (size_t at = 0; value && at < len;) {
        size_t item = strcspn(value + at, ",\r\n");
        size_t blank = strspn(value + at, " \t");
        if (item >= blank + word_len && strncasecmp(value + at + blank, word, word_len) == 0 &&
            strspn(value + at + blank + word_len, " \t") == item - blank - word_len)
            return true;
        at += item + 1;
    }
    return false;
}

static void handshake(struct connection *c, size_t end)
{
    static const char refusal[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    static char request[MAX_REQUEST + 1];
    uint8_t *blank = memmem(input, end, "\r\n\r\n", 4);
    size_t request_len = blank ? (size_t)(blank - input) + 4 : end;
    if (!blank && end < MAX_REQUEST) {
        keep(c, 0, end);
        return;
    }
    size_t key_len = 0, version_len = 0;
    const char *key = NULL, *version = NULL;
    if (request_len <= MAX_REQUEST && !memchr(input, 0, request_len)) {
        memcpy(request, input, request_len);
        request[request_len] = 0;
        key = header(request, "Sec-WebSocket-Key", &key_len);
        version = header(request, "Sec-WebSocket-Version", &version_len);
    }
    if (!key || key_len != 24 || !version || version_len != 2 || strncmp(version, "13", 2) != 0 ||
        strncmp(request, "GET ", 4) != 0 || !lists(request, "Upgrade", "websocket") ||
        !lists(request, "Connection", "upgrade")) {
        push(c, (const uint8_t *)refusal, sizeof refusal - 1);
        say_goodbye(c, 0);
        return;
    }
    char accept[29], response[192];
    accept_key(key, key_len, accept);
    int n = snprintf(response, sizeof response,
                     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Accept: %s\r\n\r\n",
                     accept);
    /* Paired before it is told: when a client hears that it is connected its place is settled. */
    c->phase = OPEN;
    if (waiting) {
        c->partner = waiting;
        waiting->partner = c;
        waiting = NULL;
    } else {
        waiting = c;
    }
    if (deliver(c, (const uint8_t *)response, (size_t)n) && request_len < end)
        frames(c, request_len, end);
}

/* --- Frames (RFC 6455, section 5.2) ----------------------------------------------------------------------------- */

/* Eight bytes at a time, in a form that compilers turn into vector instructions. */
static void unmask(uint8_t *bytes, size_t len, uint8_t key[4])
{
    uint64_t word;
    uint8_t turned[4];
    size_t i = 0;
    memcpy(&word, key, 4);
    memcpy((uint8_t *)&word + 4, key, 4);
    for (; i + 8 <= len; i += 8) {
        uint64_t chunk;
        memcpy(&chunk, bytes + i, 8);
        chunk ^= word;
        memcpy(bytes + i, &chunk, 8);
    }
    for (; i < len; i++)
        bytes[i] ^= key[i % 4];
    for (size_t k = 0; k < 4; k++)
        turned[k] = key[(len + k) % 4];
    memcpy(key, turned, 4);
}

static size_t write_header(uint8_t *out, uint8_t first, uint64_t payload)
{
    int extra = payload < 126 ? 0 : payload <= 0xFFFF ? 2 : 8;
    out[0] = first;
    out[1] = extra == 0 ? (uint8_t)payload : extra == 2 ? 126 : 127;
    for (int i = 0; i < extra; i++)
        out[2 + i] = (uint8_t)(payload >> 8 * (extra - 1 - i));
    return 2 + (size_t)extra;
}

static bool valid_code(int code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

/* Answers a control frame; false when that ended the connection. */
static bool control(struct connection *c, uint8_t opcode, const uint8_t *payload, size_t len)
{
    if (opcode == PING) {
        uint8_t pong[2 + MAX_CONTROL];
        write_header(pong, FIN | PONG, len);
        memcpy(pong + 2, payload, len);
        if (!mid_frame(c->partner))
            return deliver(c, pong, len + 2);
        memcpy(c->pong, pong, len + 2);
        c->pong_len = len + 2;
    } else if (opcode == CLOSE) {
        int code = len == 0 ? NORMAL : len == 1 ? PROTOCOL_ERROR : payload[0] << 8 | payload[1];
        end_pair(c, valid_code(code) ? code : PROTOCOL_ERROR);
        return false;
    }
    return true;
}

/* Forwards what lies in the input from `at` to `end`. From `run` to `run_end` is what is ready to leave. */
static void frames(struct connection *c, size_t at, size_t end)
{
    size_t run = 0, run_end = 0;
    for (;;) {
        if (c->left > 0) {
            size_t take = end - at < c->left ? end - at : (size_t)c->left;
            c->left -= take;
            if (!c->to_nobody) {
                unmask(input + at, take, c->key);
                if (run == run_end)
                    run = run_end = at;
                if (run_end != at)
                    memmove(input + run_end, input + at, take);
                run_end += take;
            }
            at += take;
            if (c->left > 0)
                break;
            if (c->partner && c->partner->pong_len > 0) {
                struct connection *partner = c->partner;
                size_t len = partner->pong_len;
                partner->pong_len = 0;
                if (!forward(c, run, run_end))
                    return;
                run = run_end;
                if (!deliver(partner, partner->pong, len))
                    return;
            }
            continue;
        }
        size_t have = end - at;
        if (have < 2) {
            keep(c, at, end);
            break;
        }
        const uint8_t *p = input + at;
        uint8_t opcode = p[0] & 0x0F, size = p[1] & 0x7F;
        bool is_control = opcode & 8, final = p[0] & FIN;
        size_t extra = size == 126 ? 2 : size == 127 ? 8 : 0, header_len = 6 + extra;
        int fault = 0;
        if ((p[0] & 0x70) || !(p[1] & 0x80) || (opcode > 2 && opcode < 8) || opcode > PONG ||
            (is_control && (!final || size > MAX_CONTROL)))
            fault = PROTOCOL_ERROR;
        if (!fault && have < header_len) {
            keep(c, at, end);
            break;
        }
        uint64_t payload = extra ? 0 : size;
        for (size_t i = 0; !fault && i < extra; i++)
            payload = payload << 8 | p[2 + i];
        if ((size == 126 && payload < 126) || (size == 127 && (payload <= 0xFFFF || payload >> 63)))
            fault = PROTOCOL_ERROR;
        if (!fault && !is_control) {
            if ((opcode == CONTINUATION) != c->fragmented)
                fault = PROTOCOL_ERROR;
            else if (payload > MAX_MESSAGE || (c->fragmented ? c->message : 0) + payload > MAX_MESSAGE)
                fault = TOO_BIG;
        }
        if (fault) {
            if (forward(c, run, run_end))
                end_pair(c, fault);
            return;
        }
        uint8_t key[4];
        memcpy(key, p + header_len - 4, 4);
        if (is_control) {
            if (have < header_len + payload) {
                keep(c, at, end);
                break;
            }
            if (!forward(c, run, run_end))
                return;
            run = run_end = 0;
            unmask(input + at + header_len, payload, key);
            if (!control(c, opcode, input + at + header_len, payload))
                return;
            at += header_len + payload;
            continue;
        }
        c->message = (c->fragmented ? c->message : 0) + payload;
        c->fragmented = !final;
        c->left = payload;
        memcpy(c->key, key, 4);
        if (opcode != CONTINUATION)
            c->to_nobody = !c->partner;
        if (!c->to_nobody) {
            uint8_t first = p[0];
            if (run == run_end)
                run = run_end = at + 4;
            run_end += write_header(input + run_end, first, payload);
        }
        at += header_len;
    }
    forward(c, run, run_end);
}

/* --- The loop --------------------------------------------------------------------------------------------------- */

static void receive(struct connection *c)
{
    size_t spilled = c->spilled;
    if (spilled > 0) {
        memcpy(input, c->spill, spilled);
        free(c->spill);
        c->spill = NULL;
        c->spilled = 0;
    }
    ssize_t n = recv(c->fd, input + spilled, INPUT, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        keep(c, 0, spilled);
        return;
    }
    if (n <= 0) {
        lost(c);
        return;
    }
    size_t end = spilled + (size_t)n;
    if (c->phase == OPEN)
        frames(c, 0, end);
    else if (c->phase == HANDSHAKE)
        handshake(c, end);
    else if (c->phase == CLOSING && backlog(c) == 0 && (input[0] & 0x0F) == CLOSE)
        forget(c);
}

static void accept_all(int listener)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *c = must(calloc(1, sizeof *c));
        c->fd = fd;
        c->watched = EPOLLIN;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) < 0) {
            close(fd);
            free(c);
        }
    }
}

/* Gives up on ends that do not answer a close, and frees what is gone. */
static void sweep(void)
{
    uint64_t now = closing ? now_ms() : 0;
    for (struct connection **at = &closing; *at;) {
        struct connection *c = *at;
        if (c->phase == CLOSING && c->until_ms > now) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        if (c->phase == CLOSING) {
            c->phase = OPEN; /* it is in no list any more */
            forget(c);
        } else {
            c->next = graveyard;
            graveyard = c;
        }
    }
    while (graveyard) {
        struct connection *c = graveyard;
        graveyard = c->next;
        free(c);
    }
}

static void end(int signal)
{
    (void)signal;
    _exit(0);
}

static int listen_here(void)
{
    const char *role = getenv("ROLE"), *host = getenv("HOST"), *port = getenv("PORT");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port ? port : ""))};
    if (!role || strcmp(role, "relay") != 0 || !port || address.sin_port == 0 ||
        inet_pton(AF_INET, host ? host : "127.0.0.1", &address.sin_addr) != 1) {
        fprintf(stderr, "wsrelay: wants ROLE=relay, HOST and PORT in its environment\n");
        exit(2);
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 4096) < 0)
        die("listen");
    return listener;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--versions") == 0) {
        printf("wsrelay 1\ncc %s\n", __VERSION__);
        return 0;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGTERM, end);
    signal(SIGINT, end);
    int listener = listen_here();
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN, .data.ptr = NULL};
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) < 0)
        die("epoll");
    for (;;) {
        int ready = epoll_wait(poller, events, EVENTS, closing ? 100 : -1);
        if (ready < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            uint32_t what = events[i].events;
            if (!c) {
                accept_all(listener);
                continue;
            }
            if (c->phase != GONE && (what & EPOLLOUT)) {
                if (flush(c))
                    watch(c);
                else
                    lost(c);
            }
            /* It may have been paused by an event before this one. */
            bool paused = (what & EPOLLIN) && !(c->watched & EPOLLIN);
            if (c->phase != GONE && !paused && (what & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                receive(c);
        }
        sweep();
    }
}
