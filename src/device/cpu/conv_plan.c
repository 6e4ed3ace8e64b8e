/* Which taps of a kernel the pixels of a convolution see: all of them, but for a transposed one. The pixels that one
 * gives fall into phases, by their remainder to the stride; those of one phase see the same taps, at successive places
 * of x. */
#include "device/cpu/conv.h"

/* On one axis: the phases that have taps, and the taps in their order. */
typedef struct axis_plan {
    int64_t phases;
    struct axis_phase {
        int64_t first, grid, tap0, taps;
    } * phase;           /* at most as many as taps */
    int64_t *base, *tap; /* of each tap in order */
} axis_plan;

static int64_t remainder_of(int64_t a, int64_t b) { return (a % b + b) % b; }

static void plan_axis(axis_plan *a, const hd_conv_sizes *s, int axis, bool transposed) {
    const int64_t kernel = s->kernel[axis], stride = s->stride[axis];
    int64_t done = 0;
    a->phases = 0;
    if (!transposed) {
        a->phase[a->phases++] = (struct axis_phase){0, s->result[axis], 0, kernel};
        for (; done < kernel; ++done) {
            a->tap[done] = done;
            a->base[done] = done * s->dilation[axis] - s->before[axis];
        }
        return;
    }
    /* pixel i sees tap k when i + before - k * dilation is a multiple of the stride */
    for (int64_t k = 0; k < kernel; ++k) {
        const int64_t first = remainder_of(k * s->dilation[axis] - s->before[axis], stride);
        bool known = false;
        for (int64_t f = 0; f < a->phases; ++f) known = known || a->phase[f].first == first;
        if (known) continue;
        struct axis_phase *p = &a->phase[a->phases++];
        *p = (struct axis_phase){first, first < s->image[axis] ? (s->image[axis] - first + stride - 1) / stride : 0,
                                 done, 0};
        for (int64_t t = kernel; t-- > k;) { /* in the order of x */
            const int64_t away = first + s->before[axis] - t * s->dilation[axis];
            if (remainder_of(away, stride) != 0) continue;
            a->tap[done] = t;
            a->base[done++] = away / stride;
            p->taps++;
        }
    }
}

/* All axes together. */
static void plan_phases(const axis_plan axes[3], const hd_conv_sizes *s, hd_conv_plan *plan) {
    int64_t tap_count = 0;
    for (int64_t i = 0; i < axes[0].phases * axes[1].phases * axes[2].phases; ++i) {
        const struct axis_phase *f[3] = {&axes[0].phase[i / axes[2].phases / axes[1].phases],
                                         &axes[1].phase[i / axes[2].phases % axes[1].phases],
                                         &axes[2].phase[i % axes[2].phases]};
        hd_conv_phase *p = &plan->phases[plan->phase_count++];
        *p = (hd_conv_phase){.tap0 = tap_count, .taps = f[0]->taps * f[1]->taps * f[2]->taps};
        for (int a = 0; a < 3; ++a) {
            p->first[a] = f[a]->first;
            p->grid[a] = f[a]->grid;
        }
        for (int64_t t = 0; t < p->taps; ++t) {
            const int64_t at[3] = {f[0]->tap0 + t / f[2]->taps / f[1]->taps, f[1]->tap0 + t / f[2]->taps % f[1]->taps,
                                   f[2]->tap0 + t % f[2]->taps};
            hd_conv_tap *to = &plan->taps[tap_count++];
            to->at = 0;
            for (int a = 0; a < 3; ++a) {
                to->base[a] = axes[a].base[at[a]];
                to->at += axes[a].tap[at[a]] * s->kernel_stride[a];
            }
        }
    }
    plan->tap_count = tap_count;
}

size_t hd_conv_plan_bytes(const hd_conv_sizes *s) {
    const int64_t taps = hd_volume(s->kernel), along = s->kernel[0] + s->kernel[1] + s->kernel[2];
    return (size_t)taps * (sizeof(hd_conv_tap) + sizeof(hd_conv_phase)) +
           (size_t)along * (sizeof(struct axis_phase) + 2 * sizeof(int64_t));
}

void hd_conv_plan_make(const hd_conv_sizes *s, bool transposed, void *memory, hd_conv_plan *plan) {
    const int64_t taps = hd_volume(s->kernel), along = s->kernel[0] + s->kernel[1] + s->kernel[2];
    *plan = (hd_conv_plan){.phases = memory, .taps = (hd_conv_tap *)((hd_conv_phase *)memory + taps)};
    axis_plan axes[3];
    struct axis_phase *phases = (struct axis_phase *)(plan->taps + taps);
    int64_t *numbers = (int64_t *)(phases + along);
    for (int a = 0; a < 3; ++a) {
        axes[a] = (axis_plan){.phase = phases, .base = numbers, .tap = numbers + s->kernel[a]};
        plan_axis(&axes[a], s, a, transposed);
        phases += s->kernel[a];
        numbers += 2 * s->kernel[a];
    }
    plan_phases(axes, s, plan);
}
