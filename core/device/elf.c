/* SPDX-License-Identifier: MIT */
/*
 * Looks into a plugin's file before the dynamic linker does: a text file, a library of another machine or
 * one built with AddressSanitizer gets a sentence instead of a crash or of "invalid ELF header".
 *
 * Reads the header, the program headers and the dynamic section; every offset is checked against the file.
 */
#include "device/module.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <elf.h>
#include <link.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

typedef ElfW(Ehdr) ehdr;
typedef ElfW(Phdr) phdr;
typedef ElfW(Dyn) dyn;

static const struct {
    uint16_t id;
    const char *name;
} machines[] = {{EM_X86_64, "x86-64"}, {EM_386, "i386"},           {EM_AARCH64, "aarch64"},
                {EM_ARM, "arm"},       {EM_RISCV, "riscv"},        {EM_PPC64, "ppc64"},
                {EM_S390, "s390"},     {EM_LOONGARCH, "loongarch"}};

#if defined(__x86_64__)
enum { OURS = EM_X86_64 };
#elif defined(__aarch64__)
enum { OURS = EM_AARCH64 };
#elif defined(__i386__)
enum { OURS = EM_386 };
#elif defined(__riscv)
enum { OURS = EM_RISCV };
#else
enum { OURS = EM_NONE };
#endif

static const char *machine(uint16_t id)
{
    for (size_t i = 0; i < TN_LEN(machines); i++)
        if (machines[i].id == id) return machines[i].name;
    return "foreign";
}

static bool read_at(int fd, uint64_t off, void *p, size_t n)
{
    return pread(fd, p, n, (off_t)off) == (ssize_t)n;
}

static bool check_header(const ehdr *h, tn__why *why)
{
    if (memcmp(h->e_ident, ELFMAG, SELFMAG))
        return tn__why_set(why, "is not a shared library (no ELF header)");
    unsigned ours = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (h->e_ident[EI_CLASS] != ours)
        return tn__why_set(why, "is a %d-bit library, this process has %d bits",
                           ours == ELFCLASS64 ? 32 : 64, ours == ELFCLASS64 ? 64 : 32);
    if (OURS != EM_NONE && h->e_machine != OURS)
        return tn__why_set(why, "is a library for %s, this process is %s", machine(h->e_machine),
                           machine(OURS));
    if (h->e_type != ET_DYN) return tn__why_set(why, "is an ELF file but no shared library");
    if (h->e_phentsize != sizeof(phdr)) return tn__why_set(why, "has a damaged ELF header");
    return true;
}

/* File offset of an address, by the loaded segments. */
static uint64_t offset_of(const phdr *ph, int n, uint64_t addr)
{
    for (int i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && addr >= ph[i].p_vaddr &&
            addr - ph[i].p_vaddr < ph[i].p_filesz)
            return addr - ph[i].p_vaddr + ph[i].p_offset;
    return UINT64_MAX;
}

/* Names of DT_NEEDED, one a line. */
static void list_needed(int fd, const phdr *ph, int n, const phdr *d, tn__buf *needed)
{
    dyn entry;
    uint64_t strings = UINT64_MAX;
    uint64_t entries = d->p_filesz / sizeof entry;
    for (uint64_t i = 0;
         i < entries && read_at(fd, d->p_offset + i * sizeof entry, &entry, sizeof entry); i++) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_STRTAB) strings = offset_of(ph, n, entry.d_un.d_ptr);
    }
    if (strings == UINT64_MAX) return;
    for (uint64_t i = 0;
         i < entries && read_at(fd, d->p_offset + i * sizeof entry, &entry, sizeof entry); i++) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag != DT_NEEDED) continue;
        char name[128];
        ssize_t got = pread(fd, name, sizeof name - 1, (off_t)(strings + entry.d_un.d_val));
        if (got <= 0) continue;
        name[got] = 0;
        tn__buf_printf(needed, "%s\n", name);
    }
}

bool tn__elf_check(int fd, tn__buf *needed, tn__why *why)
{
    ehdr h;
    phdr ph[32];
    struct stat st;
    if (fstat(fd, &st) || !read_at(fd, 0, &h, sizeof h)) {
        unsigned char magic[SELFMAG];
        if (read_at(fd, 0, magic, sizeof magic) && !memcmp(magic, ELFMAG, SELFMAG))
            return tn__why_set(why, "is a truncated library");
        return tn__why_set(why, "is not a shared library (no ELF header)");
    }
    if (!check_header(&h, why)) return false;
    int n = h.e_phnum < TN_LEN(ph) ? h.e_phnum : (int)TN_LEN(ph);
    if (!read_at(fd, h.e_phoff, ph, (size_t)n * sizeof *ph))
        return tn__why_set(why, "is a truncated library");
    for (int i = 0; i < n; i++)
        if (ph[i].p_offset + ph[i].p_filesz > (uint64_t)st.st_size)
            return tn__why_set(why, "is a truncated library");
    for (int i = 0; i < n; i++)
        if (ph[i].p_type == PT_DYNAMIC) list_needed(fd, ph, n, &ph[i], needed);
#ifndef HAVE_ASAN
    if (needed->data && strstr(needed->data, "libasan.so"))
        return tn__why_set(why, "is built with AddressSanitizer, this process is not");
#endif
    return true;
}
#else
bool tn__elf_check(int fd, tn__buf *needed, tn__why *why)
{
    (void)fd, (void)needed, (void)why;
    return true;
}
#endif
