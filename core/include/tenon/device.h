/* SPDX-License-Identifier: MIT */
/* Devices: which there are, which one a block of code uses, and the orderly end. */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H
#include <tenon/base.h>
#ifdef __cplusplus
extern "C" {
#endif

/* What one device is, or why a plugin has none.  Borrowed for the call. */
typedef struct {
    size_t size;                      /* of this struct */
    const char *name;                 /* "CPU:0"; "" where a plugin is not usable */
    const char *backend;              /* "CPU", or the file's name where a plugin was refused */
    const char *chip;                 /* "Intel(R) Xeon(R)" */
    const char *arch, *driver, *kind; /* kind: CPU GPU IGPU ACCEL SOFT */
    const char *path, *version;       /* of the plugin */
    const char *reason;               /* why not usable; "" where it is */
    uint64_t memory, memory_free;     /* bytes */
    uint32_t cores, simd_bytes;
    bool is_default;
} tn_device_info;
typedef void tn_device_fn(void *user, const tn_device_info *info);

/* Loads every plugin there is and tells of each device and each refusal.  Opens no device. */
TN_API void tn_devices_each(tn_device_fn *fn, void *user);
/* The devices of one plugin, by name ("CPU") or path; false with an error when it cannot be used. */
TN_API bool tn_devices_probe(const char *plugin, tn_device_fn *fn, void *user);
/* Files that look like plugins, without loading one; first hit by name first.  kind and sizes are empty. */
TN_API void tn_plugins_each(tn_device_fn *fn, void *user);

/* Name of the device that new tensors of this thread go to: "CPU:0".  Opens it; NULL and an error. */
TN_API const char *tn_device_current(void);
/* Waits for all work of a device ("CPU:1"; NULL: the current one) and reports its errors. */
TN_API bool tn_sync(const char *device);
/* Gives freed memory that is kept for reuse back to the system, on every open device. */
TN_API void tn_trim(void);

/* Ends everything in order: waits for the work, closes the devices and the disk cache.  Every tensor must be
 * freed before, no other thread may be inside the library.  Process exit needs no such call. */
TN_API void tn_shutdown(void);

typedef struct {
    void *old;
    bool live;
} tn_with_device;
/* New tensors of this thread go to `device` until the end; an unknown one is an error and changes nothing. */
TN_API void tn_with_device_open(tn_with_device *w, const char *device);
/* The device before it; a second call does nothing. */
TN_API void tn_with_device_end(tn_with_device *w);
static inline tn_with_device tn_with_device_begin(const char *device)
{
    tn_with_device w;
    tn_with_device_open(&w, device);
    return w;
}
/* A declaration at the start of a block. */
#define TN_WITH_DEVICE(device)                       \
    tn_with_device TN_CAT(tn_with_device_, __LINE__) \
        TN_CLEANUP(tn_with_device_end) = tn_with_device_begin(device)

#ifdef __cplusplus
}
#endif
#endif
