/* Running a program. What is asked of XLA here must be right: types, shapes and number of arguments are compared
 * with the program's before. */
#include "xla/client.h"
#include "core/memory.h"

enum { FEW = 64 }; /* arguments and outputs that need no memory of their own */

static hd_error check_argument(const hd_xla_program *program, const hd_xla_buffer *b, int i) {
    const hd_xla_parameter *parameter = &program->parameters[i];
    if (b == NULL || b->handle == NULL)
        return hd_fail(HD_ERROR_STATE, "argument %d of a program of XLA is %s", i,
                       b == NULL ? "NULL" : "gone: it was donated or destroyed");
    if (b->device != program->device)
        return hd_fail(HD_ERROR_DEVICE, "argument %d of a program of XLA is on another device than the program", i);
    if (!hd_xla_type_equal(&b->type, &parameter->type))
        return hd_fail(b->type.dtype != parameter->type.dtype ? HD_ERROR_DTYPE : HD_ERROR_SHAPE,
                       "argument %d of a program of XLA is %s, expected %s", i, HD_XLA_TYPE_TEXT(b->type),
                       HD_XLA_TYPE_TEXT(parameter->type));
    if (parameter->donated && b->freed != NULL)
        return hd_fail(HD_ERROR_STATE, "argument %d of a program of XLA is donated, but its memory is borrowed", i);
    return HD_OK;
}

static hd_error check_arguments(const hd_xla_program *program, hd_xla_buffer *const *arguments, int count) {
    HD_TRY(hd_xla_check_process(program->device));
    if (count != program->parameter_count)
        return hd_fail(HD_ERROR_VALUE, "a program of XLA was given %d arguments, expected %d", count,
                       program->parameter_count);
    for (int i = 0; i < count; ++i) HD_TRY(check_argument(program, arguments[i], i));
    return HD_OK;
}

/* Donated by the text, but not XLA's to take. */
static bool is_kept(const hd_xla_program *program, hd_xla_buffer *const *arguments, int i) {
    return program->parameters[i].donated && arguments[i]->is_view;
}

static hd_error execute_program(const hd_xla_program *program, hd_xla_buffer *const *arguments,
                                hd_pjrt_buffer **handles, int64_t *kept, hd_xla_buffer *outputs, hd_pjrt_event **done) {
    const hd_xla_plugin *p = &program->device->client->plugin;
    hd_pjrt_buffer **inputs = handles, **results = handles + program->parameter_count;
    size_t kept_count = 0;
    for (int i = 0; i < program->parameter_count; ++i) inputs[i] = arguments[i]->handle;
    for (int i = 0; i < program->parameter_count; ++i)
        if (is_kept(program, arguments, i)) kept[kept_count++] = i;
    hd_pjrt_execute_options options =
        HD_PJRT(hd_pjrt_execute_options, .kept_arguments = kept, .kept_argument_count = kept_count);
    hd_pjrt_execute execute = HD_PJRT(hd_pjrt_execute, .loaded = program->loaded, .options = &options,
                                      .arguments = (hd_pjrt_buffer *const *[]){inputs}, .device_count = 1,
                                      .argument_count = (size_t)program->parameter_count,
                                      .outputs = (hd_pjrt_buffer * *[]){results}, .done = done);
    HD_TRY(hd_xla_check(p, p->execute(&execute), "XLA does not run the program"));
    for (int i = 0; i < program->output_count; ++i)
        outputs[i] = (hd_xla_buffer){.handle = results[i], .device = program->device, .type = program->outputs[i]};
    for (int i = 0; i < program->parameter_count; ++i)
        if (program->parameters[i].donated && !is_kept(program, arguments, i)) hd_xla_buffer_is_spent(arguments[i]);
    return HD_OK;
}

hd_error hd_xla_run(const hd_xla_program *program, hd_xla_buffer *const *arguments, int argument_count,
                    hd_xla_buffer *outputs, hd_pjrt_event **done) {
    for (int i = 0; i < program->output_count; ++i) outputs[i] = (hd_xla_buffer){0};
    if (done != NULL) *done = NULL;
    HD_TRY(check_arguments(program, arguments, argument_count));
    hd_pjrt_buffer *few[FEW], **handles = few;
    int64_t few_kept[FEW], *kept = few_kept;
    const int count = program->parameter_count + program->output_count;
    if (count > FEW) handles = hd_array_resize(NULL, (size_t)count * sizeof(hd_pjrt_buffer *));
    if (count > FEW) kept = hd_array_resize(NULL, (size_t)count * sizeof *kept);
    const hd_error status = handles == NULL || kept == NULL
                                ? hd_fail(HD_ERROR_MEMORY, "no memory for a list of %d buffers of XLA", count)
                                : execute_program(program, arguments, handles, kept, outputs, done);
    if (handles != few) hd_array_release(handles);
    if (kept != few_kept) hd_array_release(kept);
    return status;
}
