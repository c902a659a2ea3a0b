/* SPDX-License-Identifier: MIT */
/*
 * A plugin that is right but for one thing, chosen by -DKIND_x when it is compiled; broken.sh has the list.
 * ME is its name in capitals.
 */
#include <string.h>
#include <tenon/plugin.h>
#include <unistd.h>

#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

static tnp_rc say(tnp_err *e, tnp_rc rc, const char *text)
{
    e->rc = rc;
    if (e->cap) {
        strncpy(e->msg, text, e->cap - 1);
        e->msg[e->cap - 1] = 0;
    }
    return rc;
}

static tnp_rc init(const tnp_host *h, tnp_err *e)
{
    (void)h;
#if defined KIND_INIT_FAILS
    return say(e, TNP_E_DRIVER, "driver library not found: tried libbroken.so.1");
#elif defined KIND_INIT_HANGS
    for (;;) sleep(1000);
#elif defined KIND_UNDEFINED
    extern void nowhere_to_be_found(void);
    nowhere_to_be_found();
#endif
    (void)e;
    return TNP_OK;
}

static void fini(void) {}

static tnp_rc count(uint32_t *n, tnp_err *e)
{
#if defined KIND_COUNT_FAILS
    (void)n;
    return say(e, TNP_E_DRIVER, "driver 440 is too old: at least 525");
#endif
    (void)e, (void)say;
    *n = 1;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *c, tnp_err *e)
{
    (void)i, (void)e;
    if (c->size >= TNP_END(tnp_caps, kind)) c->kind = TNP_KIND_SOFT;
    return TNP_OK;
}

static tnp_rc open_dev(uint32_t i, tnp_dev **d, const tnp_dev_ops **o, tnp_err *e)
{
    (void)i, (void)d, (void)o;
    return say(e, TNP_E_INTERNAL, "nothing opens here");
}

static const tnp_plugin root = {
#if defined KIND_MAGIC
    .magic = 0x12345678,
#else
    .magic = TNP_MAGIC,
#endif
#if defined KIND_SHORT
    .size = 40,
#else
    .size = sizeof root,
#endif
#if defined KIND_NAME
    .name = "SOMEBODY_ELSE",
#else
    .name = TEXT(ME),
#endif
#if !defined KIND_NULL
    .count = count,
#endif
    .version = "1.2",
    .vendor = "tests",
    .build = "C11",
    .init = init,
    .fini = fini,
    .probe = probe,
    .open = open_dev,
    .forked = fini};

#if defined KIND_NO_SYMBOL
#define ENTRY plugin_of_another_program
#elif defined KIND_NEWER_ABI
#define ENTRY tenon_plugin_v3
#else
#define ENTRY tenon_plugin_v0
#endif
TNP_EXPORT const tnp_plugin *ENTRY(uint32_t host_minor);
const tnp_plugin *ENTRY(uint32_t host_minor)
{
    (void)host_minor, (void)count;
    return &root;
}
