/* SPDX-License-Identifier: MIT */
/* Checks 9 to 15: counting and probing devices, their capabilities. */
#define _GNU_SOURCE
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void cheap_probe(void)
{
    need_init();
    uint32_t n = 0;
    const int threads = threads_now();
    uint64_t t0 = now_ns();
    worked(root->count(&n, fresh()), "count");
    late("count", now_ns() - t0, 100000000);
    NEED(n == dev_count, "count says %u, then %u", dev_count, n);
    static tnp_caps a, b;
    for (uint32_t i = 0; i < n && i < 8; i++) {
        t0 = now_ns();
        a = caps_of(i);
        late("probe", now_ns() - t0, 100000000);
        b = caps_of(i);
        a.mem_free = b.mem_free;
        NEED(!memcmp(&a, &b, sizeof a), "two probes of device %u differ", i);
    }
    NEED(threads_now() == threads, "count and probe start threads: %d before, %d after", threads,
         threads_now());
}

static void no_hardware(void)
{
    need_root();
    host_init();
    host_no_drivers = true;
    uint32_t n = 0;
    tnp_rc rc = root->init(&host, fresh());
    if (rc == TNP_OK) rc = root->count(&n, fresh());
    if (rc < 0)
        refused(rc, TNP_E_DRIVER, "without any driver library");
    else
        note(n ? "%u devices without a driver library" : "%u devices", n);
}

static void every_size(void)
{
    need_init();
    enum { ROOM = sizeof(tnp_caps) + 64 };
    static tnp_caps full;
    full = caps_of(0);
    NEED(full.size <= sizeof full && full.size >= TNP_END(tnp_caps, formats),
         "probe fills %u bytes of %zu", full.size, sizeof full);
    for (uint32_t n = TNP_END(tnp_caps, flags); n <= sizeof full; n += 4) {
        union {
            tnp_caps c;
            unsigned char b[ROOM];
        } u;
        memset(&u, 0xa5, sizeof u);
        u.c.size = n;
        worked(root->probe(0, &u.c, fresh()), "probe of a smaller struct");
        NEED(u.c.size <= n, "a struct of %u bytes comes back with size %u", n, u.c.size);
        for (size_t i = n; i < sizeof u; i++)
            NEED(u.b[i] == 0xa5, "probe writes byte %zu of a struct of %u bytes", i, n);
        NEED(u.c.kind == full.kind && u.c.flags == full.flags,
             "a smaller struct is filled otherwise");
    }
}

static void list_uids(int fd)
{
    need_init();
    for (uint32_t i = 0; i < dev_count && i < 32; i++) {
        const tnp_caps c = caps_of(i);
        NEED(memchr(c.uid, 0, sizeof c.uid) && c.uid[0], "device %u has no uid", i);
        dprintf(fd, "%s\n", c.uid);
    }
}

static void uids_of_a_child(char *out, size_t cap)
{
    int fd[2];
    NEED(!pipe(fd), "no pipe");
    const pid_t pid = fork();
    NEED(pid >= 0, "no process");
    if (!pid) {
        list_uids(fd[1]);
        _exit(0);
    }
    close(fd[1]);
    size_t n = 0;
    for (ssize_t k; n + 1 < cap && (k = read(fd[0], out + n, cap - 1 - n)) > 0;) n += (size_t)k;
    out[n] = 0;
    close(fd[0]);
    waitpid(pid, NULL, 0);
}

static void stable_uids(void)
{
    static char a[8000], b[8000];
    uids_of_a_child(a, sizeof a); /* before this process has loaded the plugin */
    uids_of_a_child(b, sizeof b);
    need_init();
    NEED(a[0], "no uid from a process of its own");
    NEED(!strcmp(a, b), "two processes see other uids: %.100s and %.100s", a, b);
    for (uint32_t i = 0; i < dev_count && i < 32; i++)
        for (uint32_t k = 0; k < i; k++) {
            const tnp_caps x = caps_of(i), y = caps_of(k);
            NEED(strcmp(x.uid, y.uid) != 0, "devices %u and %u share the uid %s", k, i, x.uid);
        }
}

static bool terminated(const char *s, size_t n) { return memchr(s, 0, n) != NULL; }

static void probe_is_caps(void)
{
    need_dev();
    static tnp_caps p, c;
    p = caps_of(0);
    c = caps;
    p.mem_free = c.mem_free = 0;
    const unsigned char *x = (const unsigned char *)&p, *y = (const unsigned char *)&c;
    for (size_t i = 0; i < sizeof p; i++)
        NEED(x[i] == y[i], "probe and the open device's caps differ at byte %zu of tnp_caps", i);
    NEED(terminated(c.name, sizeof c.name) && terminated(c.arch, sizeof c.arch) &&
             terminated(c.driver, sizeof c.driver),
         "a text of the capabilities has no end");
    NEED(c.name[0] && c.arch[0], "the device has no name or no arch");
    NEED(c.kind <= TNP_KIND_SOFT, "unknown kind %u", c.kind);
    NEED(c.mem_total && c.max_buffer && c.max_buffer <= c.mem_total,
         "memory %llu, largest buffer %llu", (unsigned long long)c.mem_total,
         (unsigned long long)c.max_buffer);
    NEED(c.buf_align && !(c.buf_align & (c.buf_align - 1)), "buf_align %u: a power of two",
         c.buf_align);
    NEED(c.max_args >= 8 || (c.flags & TNP_F_NOEXEC), "max_args %u: at least 8", c.max_args);
    NEED(c.max_grid[0] && c.max_local[0] && c.max_local_total, "a limit of launches is 0");
    NEED((c.dtypes_alu & ~c.dtypes_mem) == 0, "it computes with dtypes that it cannot store");
    NEED(!c.dialects || !c.dialects[0] || (c.formats && c.formats[0]), "no format is loaded");
    NEED(!(c.flags & TNP_F_MAP) || TNP_FN(ops, tnp_dev_ops, buf_map), "TNP_F_MAP without buf_map");
    NEED(!(c.flags & TNP_F_VADDR) || TNP_FN(ops, tnp_dev_ops, buf_addr),
         "TNP_F_VADDR without buf_addr");
}

static void no_such_device(void)
{
    need_init();
    tnp_dev *d = NULL;
    const tnp_dev_ops *o = NULL;
    static tnp_caps c;
    const uint32_t bad[] = {dev_count, dev_count + 1000, 0x7fffffffu, 0xffffffffu};
    for (size_t i = 0; i < LEN(bad); i++) {
        c.size = sizeof c;
        refused(root->probe(bad[i], &c, fresh()), TNP_E_NODEV,
                "probe of a device that there is not");
        refused(root->open(bad[i], &d, &o, fresh()), TNP_E_NODEV,
                "open of a device that there is not");
    }
}

static void no_such_extension(void)
{
    static const char *const ids[] = {
        "",
        "tenon",
        "tenon.graph",
        "tenon.graph/999",
        "tenon.nonsense/1",
        "a name that is far longer than any extension will ever have"};
    need_dev();
    if (!TNP_FN(ops, tnp_dev_ops, ext)) skip("no extensions");
    for (size_t i = 0; i < LEN(ids); i++)
        NEED(!ops->ext(dev, ids[i]), "ext(\"%s\") is not NULL", ids[i]);
    uint64_t v;
    if (TNP_FN(ops, tnp_dev_ops, query))
        NEED(ops->query(dev, "tenon.nonsense", &v) == TNP_E_UNSUPPORTED,
             "query of an unknown key is not UNSUPPORTED");
}

const check_row enum_checks[] = {
    {9, "enumerate", "count and probe are cheap, equal and make no context", cheap_probe, 0},
    {10, "enumerate", "without driver libraries: no device, or DRIVER with a text", no_hardware, 0},
    {11, "enumerate", "capabilities fill a struct of every size, and no byte more", every_size, 0},
    {12, "enumerate", "uids are there, unique, and the same in every process", stable_uids, 0},
    {13, "enumerate", "a probe tells what the open device tells, and it makes sense", probe_is_caps,
     0},
    {14, "enumerate", "an index out of range is NODEV", no_such_device, 0},
    {15, "enumerate", "an unknown extension is NULL", no_such_extension, 0},
    {0}};
