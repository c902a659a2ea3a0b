/* SPDX-License-Identifier: MIT */
/*
 * Learning rate schedulers.  They run on the host in double and write the optimizer's cell, which captured
 * steps read at each call; stepping one inside a capture is an error, since replays would not repeat it.
 */
#include "nn/optim.h"
#include <math.h>
#include <string.h>

typedef enum { MULTISTEP, PLATEAU, COSINE, ONECYCLE } kind;
static const char *const kind_names[] = {"multistep", "plateau", "cosine", "onecycle"};

struct tn_sched {
    kind k;
    tn_optim *optim; /* borrowed */
    tn_sched_opts o;
    uint64_t step, bad;        /* bad: calls without improvement */
    double base, best;         /* learning rate at the start (one-cycle: greatest) */
    int64_t steps, *milestone; /* own */
    size_t nmilestones;
};

static void default_to(double *x, double def)
{
    if (*x == 0) *x = signbit(*x) ? 0 : def;
}

static tn_sched *make(kind k, tn_optim *optim, const tn_sched_opts *opts)
{
    if (!optim) {
        tn__fail(TN_ENULL, "sched_%s: the optimizer is NULL", kind_names[k]);
        return NULL;
    }
    tn_sched *s = tn__calloc(1, sizeof *s);
    if (!s) return NULL;
    *s = (tn_sched){.k = k, .optim = optim, .base = tn_optim_lr(optim)};
    tn__options(&s->o, opts, sizeof s->o);
    default_to(&s->o.gamma, 0.1);
    default_to(&s->o.factor, 0.1);
    default_to(&s->o.threshold, 1e-4);
    default_to(&s->o.div_factor, 25);
    default_to(&s->o.final_div_factor, 1e4);
    default_to(&s->o.pct_start, 0.3);
    s->o.patience = s->o.patience ? s->o.patience < 0 ? 0 : s->o.patience : 10;
    s->best = s->o.maximize ? -(double)INFINITY : (double)INFINITY;
    return s;
}

static tn_sched *refuse(tn_sched *s)
{
    tn_sched_free(s);
    return NULL;
}

tn_sched *(tn_sched_multistep)(tn_optim *o, const int64_t *milestones, size_t n,
                               const tn_sched_opts *opts)
{
    tn_sched *s = make(MULTISTEP, o, opts);
    if (!s) return NULL;
    if (n && !milestones) {
        tn__fail(TN_ENULL, "sched_multistep: the milestones are NULL");
        return refuse(s);
    }
    s->milestone = tn__calloc(n ? n : 1, sizeof *s->milestone);
    if (!s->milestone) return refuse(s);
    if (n) memcpy(s->milestone, milestones, n * sizeof *milestones);
    s->nmilestones = n;
    return s;
}

tn_sched *(tn_sched_plateau)(tn_optim *o, const tn_sched_opts *opts)
{
    tn_sched *s = make(PLATEAU, o, opts);
    if (!s || (s->o.factor > 0 && s->o.factor < 1)) return s;
    tn__fail(TN_EVALUE, "sched_plateau: factor %g: must be in 0..1", s->o.factor);
    return refuse(s);
}

static bool steps_fit(tn_sched *s, int64_t steps)
{
    s->steps = steps;
    return steps > 0 || tn__fail(TN_EVALUE, "sched_%s: %lld steps: must be at least 1",
                                 kind_names[s->k], (long long)steps);
}

tn_sched *(tn_sched_cosine)(tn_optim *o, int64_t steps, const tn_sched_opts *opts)
{
    tn_sched *s = make(COSINE, o, opts);
    return !s || steps_fit(s, steps) ? s : refuse(s);
}

/* From a to b as `part` goes from 0 to 1. */
static double between(const tn_sched *s, double a, double b, double part)
{
    if (s->o.linear) return a + (b - a) * part;
    return b + (a - b) / 2 * (1 + cos(3.14159265358979323846 * part));
}

static double onecycle(const tn_sched *s)
{
    const double first = s->base / s->o.div_factor, last = first / s->o.final_div_factor;
    const double up = s->o.pct_start * (double)s->steps - 1, end = (double)s->steps - 1,
                 at = (double)s->step;
    if (at <= up) return up > 0 ? between(s, first, s->base, at / up) : s->base;
    return end > up ? between(s, s->base, last, (at - up) / (end - up)) : last;
}

tn_sched *(tn_sched_onecycle)(tn_optim *o, double max_lr, int64_t steps, const tn_sched_opts *opts)
{
    tn_sched *s = make(ONECYCLE, o, opts);
    if (!s || !steps_fit(s, steps)) return refuse(s);
    s->base = max_lr;
    if (!(max_lr > 0) || !(s->o.pct_start >= 0 && s->o.pct_start <= 1) || !(s->o.div_factor > 0) ||
        !(s->o.final_div_factor > 0)) {
        tn__fail(TN_EVALUE,
                 "sched_onecycle: max_lr %g, pct_start %g, factors %g and %g: must be positive, "
                 "pct_start in 0..1",
                 max_lr, s->o.pct_start, s->o.div_factor, s->o.final_div_factor);
        return refuse(s);
    }
    return tn_optim_set_lr(o, onecycle(s)) ? s : refuse(s);
}

static double next_lr(const tn_sched *s)
{
    double lr = tn_optim_lr(s->optim);
    switch (s->k) {
    case MULTISTEP:
        for (size_t i = 0; i < s->nmilestones; i++)
            if (s->milestone[i] == (int64_t)s->step) lr *= s->o.gamma;
        return lr;
    case COSINE:
        return s->o.min_lr +
               (s->base - s->o.min_lr) *
                   (1 + cos(3.14159265358979323846 * (double)s->step / (double)s->steps)) / 2;
    case ONECYCLE: return onecycle(s);
    case PLATEAU: return lr;
    }
    return lr;
}

static bool outside_capture(const tn_sched *s)
{
    if (!s) return tn__fail(TN_ENULL, "sched_step: the scheduler is NULL");
    if (tn__capture)
        return tn__fail(TN_ESTATE, "sched_step: inside a captured function: replays would not "
                                   "repeat it: call it after the "
                                   "captured function");
    return true;
}

bool tn_sched_step(tn_sched *s)
{
    if (!outside_capture(s)) return false;
    if (s->k == PLATEAU)
        return tn__fail(
            TN_EVALUE,
            "sched_step: a plateau scheduler needs the metric: call tn_sched_step_metric");
    if (s->k == ONECYCLE && s->step >= (uint64_t)s->steps - 1)
        return tn__fail(
            TN_EVALUE,
            "sched_step: step %llu of a cycle of %lld: the cycle is over: make it longer",
            (unsigned long long)s->step + 1, (long long)s->steps);
    s->step++;
    const double lr = next_lr(s);
    return tn_optim_set_lr(s->optim, lr);
}

bool tn_sched_step_metric(tn_sched *s, double metric)
{
    if (!outside_capture(s)) return false;
    if (s->k != PLATEAU) return tn_sched_step(s);
    const double t = s->o.threshold, sign = s->o.maximize ? 1 : -1;
    const double mark = s->o.absolute    ? s->best + sign * t
                        : isinf(s->best) ? s->best
                                         : s->best * (1 + sign * t);
    const bool better = s->o.maximize ? metric > mark : metric < mark;
    s->step++;
    s->bad = better ? 0 : s->bad + 1;
    if (better) s->best = metric;
    if (s->bad <= (uint64_t)s->o.patience) return true;
    s->bad = 0;
    const double lr = tn_optim_lr(s->optim) * s->o.factor;
    return tn_optim_set_lr(s->optim, lr > s->o.min_lr ? lr : s->o.min_lr);
}

double tn_sched_lr(const tn_sched *s) { return s ? tn_optim_lr(s->optim) : (double)NAN; }

void tn_sched_visit(tn_visitor *v, void *obj)
{
    tn_sched *s = obj;
    tn_visit_number(v, "step", &s->step);
    tn_visit_number(v, "bad", &s->bad);
    tn__visit_double(v, "base", &s->base);
    tn__visit_double(v, "best", &s->best);
}

void tn_sched_free(tn_sched *s)
{
    if (!s) return;
    tn__free(s->milestone);
    tn__free(s);
}
