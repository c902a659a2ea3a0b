/* SPDX-License-Identifier: MIT */
/*
 * CPU:LLVM: checked linear code to an ELF object in memory, with the trailer that all binaries of the
 * plugin have.  Pure and [any]: equal code, arch and library give equal bytes.
 *
 *  1. llvm_check.c: nothing that LLVM would end the process for gets further
 *  2. llvm_emit.c into a module of a private context
 *  3. LLVM's verifier, before any pass: its message is the error
 *  4. a short constant list of passes; LLVM's own unrolling and vectorizing are not in it (both are opts)
 *  5. object code, position independent
 */
#include "llvm_api.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#ifdef CPU_HAVE_LLVM

typedef struct {
    const char *target; /* "X86" */
    char triple[48], cpu[64], features[4096];
    bool fma, f16c;
} machine;

/* ---- step 0: for which machine ---- */

static bool has(const char *features, const char *name)
{
    const size_t n = strlen(name);
    bool on = false;
    for (const char *p = features; p && *p; p = strchr(p, ',')) {
        p += *p == ',';
        if ((p[0] == '+' || p[0] == '-') && !strncmp(p + 1, name, n) &&
            (!p[1 + n] || p[1 + n] == ','))
            on = p[0] == '+';
    }
    return on;
}

static tnp_rc host_machine(machine *m, tnp_err *e)
{
    char *cpu = L(GetHostCPUName)(), *features = L(GetHostCPUFeatures)();
    const int a = snprintf(m->cpu, sizeof m->cpu, "%s", cpu ? cpu : "");
    const int b = snprintf(m->features, sizeof m->features, "%s", features ? features : "");
    if (cpu) L(DisposeMessage)(cpu);
    if (features) L(DisposeMessage)(features);
    if (a > 0 && (size_t)a < sizeof m->cpu && b >= 0 && (size_t)b < sizeof m->features)
        return TNP_OK;
    return cpu__fail(e, TNP_E_INTERNAL, 0, "CPU: libLLVM does not know this processor");
}

/* ARCH{,[-]FEATURE}: a processor's name, features with or without "-". */
static tnp_rc named_machine(machine *m, const char *arch, tnp_err *e)
{
    size_t n = strcspn(arch, ","), w = 0;
    for (const char *c = arch; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.,+", *c))
            return cpu__fail(e, TNP_E_ARG, 0, "CPU: arch \"%s\": letters, digits and - _ . + only",
                             arch);
    if (n >= sizeof m->cpu || strlen(arch) > sizeof m->features / 2)
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: arch \"%.40s..\": too long", arch);
    snprintf(m->cpu, sizeof m->cpu, "%.*s", (int)n, arch);
    for (const char *p = arch + n; *p;) {
        p++;
        n = strcspn(p, ",");
        const bool off = *p == '-';
        w += (size_t)snprintf(m->features + w, sizeof m->features - w, "%s%s%.*s", w ? "," : "",
                              off         ? "-"
                              : *p == '+' ? ""
                                          : "+",
                              (int)(n - off), p + off);
        p += n;
    }
    return TNP_OK;
}

static tnp_rc choose_machine(machine *m, const char *arch, tnp_err *e)
{
    const bool own = !arch || !arch[0] || !strcmp(arch, cpu__arch()) || !strcmp(arch, "native");
    bool arm = !own && !strncmp(arch, "aarch64", 7);
#ifdef __aarch64__
    arm |= own;
#endif
    tnp_rc rc = own ? host_machine(m, e) : named_machine(m, arch, e);
    if (rc) return rc;
    m->target = arm ? "AArch64" : "X86";
    snprintf(m->triple, sizeof m->triple, "%s",
             arm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu");
    if (arm && !own) snprintf(m->cpu, sizeof m->cpu, "generic");
    m->fma = arm || has(m->features, "fma");
    m->f16c = arm || has(m->features, "f16c");
    return TNP_OK;
}

/* ---- steps 2 to 5 ---- */

/* Loops are written rotated; loop-rotate sees to those that simplifycfg puts together. */
static const char *passes(void)
{
    if (cpu__llvm.version >= 19)
        return "function(sroa,early-cse,simplifycfg,loop-mssa(loop-rotate,licm),"
               "instcombine<no-verify-fixpoint>,gvn,simplifycfg)";
    return "function(sroa,early-cse,simplifycfg,loop-mssa(loop-rotate,licm),instcombine,gvn,"
           "simplifycfg)";
}

/* First error that LLVM reports of a module: without a handler it would end the process. */
typedef struct {
    char text[300];
} diagnosis;

static void diagnose(LLVMDiagnosticInfoRef info, void *arg)
{
    diagnosis *d = arg;
    if (L(GetDiagInfoSeverity)(info) != LLVMDSError || d->text[0]) return;
    char *t = L(GetDiagInfoDescription)(info);
    snprintf(d->text, sizeof d->text, "%s", t ? t : "no reason given");
    if (t) L(DisposeMessage)(t);
}

static void copy_log(tnp_blob *log, const char *text)
{
    const size_t n = strlen(text);
    if (!log || log->data || !(log->data = cpu__take(n + 1))) return;
    memcpy(log->data, text, n);
    log->len = n;
}

static tnp_rc verify(const cpu__unit *u, const char *name, tnp_blob *log, tnp_err *e)
{
    char *text = NULL;
    tnp_rc rc = TNP_OK;
    if (L(VerifyModule)(u->m, LLVMReturnStatusAction, &text)) {
        rc = cpu__fail(e, TNP_E_INTERNAL, 0, "CPU: kernel %s: LLVM's verifier: %.200s", name,
                       text ? text : "no reason given");
        if (text) copy_log(log, text);
    }
    if (text) L(DisposeMessage)(text);
    return rc;
}

static tnp_rc optimize(const cpu__unit *u, LLVMTargetMachineRef tm, const char *name, tnp_err *e)
{
    LLVMPassBuilderOptionsRef o = L(CreatePassBuilderOptions)();
    LLVMErrorRef err = L(RunPasses)(u->m, passes(), tm, o);
    L(DisposePassBuilderOptions)(o);
    if (!err) return TNP_OK;
    char *text = L(GetErrorMessage)(err);
    tnp_rc rc = cpu__fail(e, TNP_E_INTERNAL, 0, "CPU: kernel %s: LLVM's passes: %.200s", name,
                          text);
    L(DisposeErrorMessage)(text);
    return rc;
}

static tnp_rc object(const cpu__unit *u, LLVMTargetMachineRef tm, const char *name, tnp_blob *bin,
                     tnp_err *e)
{
    LLVMMemoryBufferRef mem = NULL;
    char *text = NULL;
    tnp_rc rc = TNP_OK;
    if (L(TargetMachineEmitToMemoryBuffer)(tm, u->m, LLVMObjectFile, &text, &mem)) {
        rc = cpu__fail(e, TNP_E_COMPILE, 0, "CPU: kernel %s: LLVM's code generator: %.200s", name,
                       text ? text : "no reason given");
        if (text) L(DisposeMessage)(text);
        return rc;
    }
    const size_t n = L(GetBufferSize)(mem);
    char *p = cpu__take(n + sizeof(cpu__trailer));
    if (p) {
        memcpy(p, L(GetBufferStart)(mem), n);
        cpu__trailer t = {.magic = CPU_TRAILER_MAGIC, .len = n};
        cpu__hash(p, n, t.hash);
        memcpy(p + n, &t, sizeof t);
        *bin = (tnp_blob){p, n + sizeof t};
    } else {
        rc = cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for %zu bytes of object code", n);
    }
    L(DisposeMemoryBuffer)(mem);
    return rc;
}

static LLVMTargetMachineRef open_machine(const machine *m, tnp_err *e)
{
    LLVMTargetRef t = NULL;
    char *text = NULL;
    if (cpu__llvm_target(m->target, e)) return NULL;
    if (L(GetTargetFromTriple)(m->triple, &t, &text)) {
        cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: libLLVM: %.200s", text ? text : m->triple);
        if (text) L(DisposeMessage)(text);
        return NULL;
    }
    LLVMTargetMachineRef tm = L(CreateTargetMachine)(t, m->triple, m->cpu, m->features,
                                                     LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                                     LLVMCodeModelSmall);
    if (!tm) cpu__fail(e, TNP_E_INTERNAL, 0, "CPU: libLLVM: no target machine for %s", m->triple);
    return tm;
}

static tnp_rc build(const cpu__linear *l, const machine *m, tnp_blob *bin, tnp_blob *log,
                    tnp_err *e)
{
    const char *name = l->v.head->name;
    diagnosis d = {{0}};
    LLVMTargetMachineRef tm = open_machine(m, e);
    if (!tm) return e && e->rc ? e->rc : TNP_E_INTERNAL;
    cpu__unit u = {.c = L(ContextCreate)(), .fma = m->fma, .f16c = m->f16c};
    L(ContextSetDiagnosticHandler)(u.c, diagnose, &d);
    u.m = L(ModuleCreateWithNameInContext)("tenon", u.c);
    u.b = L(CreateBuilderInContext)(u.c);
    LLVMTargetDataRef layout = L(CreateTargetDataLayout)(tm);
    char *text = L(CopyStringRepOfTargetData)(layout);
    L(SetTarget)(u.m, m->triple);
    L(SetDataLayout)(u.m, text);
    L(DisposeMessage)(text);
    L(DisposeTargetData)(layout);
    tnp_rc rc = cpu__llvm_emit(&u, l, e);
    if (!rc) rc = verify(&u, name, log, e);
    if (!rc) rc = optimize(&u, tm, name, e);
    if (!rc) rc = object(&u, tm, name, bin, e);
    if (!rc && d.text[0]) {
        cpu__give(bin->data);
        *bin = (tnp_blob){0};
        rc = cpu__fail(e, TNP_E_COMPILE, 0, "CPU: kernel %s: LLVM: %s", name, d.text);
    }
    L(DisposeBuilder)(u.b);
    L(DisposeModule)(u.m);
    L(ContextDispose)(u.c);
    L(DisposeTargetMachine)(tm);
    return rc;
}

tnp_rc cpu__llvm_compile(const tnp_compile *c, tnp_blob *bin, tnp_blob *log, tnp_err *e)
{
    cpu__linear l;
    machine *m = cpu__take(sizeof *m);
    if (!m) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory to compile a kernel");
    tnp_rc rc = cpu__linear_check(c->src, c->len, &l, e);
    if (!rc) rc = cpu__llvm_open(e);
    if (!rc) rc = choose_machine(m, c->arch, e);
    if (!rc) rc = build(&l, m, bin, log, e);
    cpu__give(l.op);
    cpu__give(m);
    return rc;
}

/* ---- the renderer: linear code is what compile takes, so that it is only checked ---- */

static tnp_rc render(const void *linear, size_t n, tnp_blob *src, tnp_blob *log, tnp_err *e)
{
    cpu__linear l;
    *src = (tnp_blob){0};
    if (log) *log = (tnp_blob){0};
    tnp_rc rc = cpu__linear_check(linear, n, &l, e);
    if (rc) return rc;
    cpu__give(l.op);
    src->data = cpu__take(n);
    if (!src->data)
        return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for %zu bytes of source", n);
    memcpy(src->data, linear, n);
    src->len = n;
    return TNP_OK;
}

const tnp_render_ops cpu__llvm_render = {.size = sizeof cpu__llvm_render,
                                         .minor = TNP_MINOR,
                                         .dialect = "linear",
                                         .render = render,
                                         .renderer = "LLVM"};
#else
tnp_rc cpu__llvm_compile(const tnp_compile *c, tnp_blob *bin, tnp_blob *log, tnp_err *e)
{
    (void)c, (void)bin, (void)log;
    return cpu__fail(e, TNP_E_UNSUPPORTED, 0,
                     "CPU: dialect \"linear\": this build has no LLVM, only gnu-c is compiled");
}
#endif
