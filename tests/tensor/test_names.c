/* SPDX-License-Identifier: MIT */
/* Every name of tests/names.txt is declared in the public headers, or its line gives a reason of the list. */
#include "../test.h"
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20 };
static char headers[ROOM], list[1 << 16];

static size_t append(char *to, size_t n, size_t room, const char *path)
{
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    n += fread(to + n, 1, room - n - 1, f);
    fclose(f);
    ck_assert_msg(n + 1 < room, "%s does not fit", path);
    to[n] = 0;
    return n;
}

static void read_headers(void)
{
    const char *dir = TEST_SOURCE_DIR "/core/include/tenon";
    char path[1000];
    size_t n = 0;
    DIR *d = opendir(dir);
    ck_assert(d != NULL);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (strstr(e->d_name, ".h")) n = append(headers, n, sizeof headers, path);
    }
    closedir(d);
    ck_assert_uint_gt(n, 0);
}

/* Declared or defined: the name as a whole, followed by its parameters, in a declaration. */
static bool declared(const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = headers; (at = strstr(at, name)); at += n) {
        if (at > headers && (isalnum((unsigned char)at[-1]) || at[-1] == '_')) continue;
        if (at[n] != '(') continue;
        const char *line = at;
        while (line > headers && line[-1] != ';' && line[-1] != '}' && line[-1] != '/') line--;
        const char *api = strstr(line, "TN_API");
        if (api && api < at) return true;
    }
    return false;
}

START_TEST(every_name_has_its_function_or_a_reason)
{
    char name[64], own[64], reason[64], head[80];
    int have = 0, left = 0;
    read_headers();
    append(list, 0, sizeof list, TEST_SOURCE_DIR "/tests/names.txt");
    for (char *line = list, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (*line == '#') continue;
        *end = 0;
        reason[0] = 0;
        ck_assert_msg(sscanf(line, "%63s %63s %63s", name, own, reason) >= 2, "%s", line);
        snprintf(head, sizeof head, "#   %s: ", reason);
        if (!strcmp(own, "-"))
            ck_assert_msg(*reason && strstr(list, head) != NULL, "%s: no such reason", line);
        else
            ck_assert_msg(declared(own), "%s: %s is not in the public headers", name, own);
        if (strcmp(own, "-"))
            have++;
        else
            left++;
        *end = '\n';
    }
    printf("names: %d in the headers, %d left out\n", have, left);
    ck_assert_int_gt(have, 240);
    ck_assert_int_lt(left, 20);
    ck_assert(!declared("tn_no_such_name") && !declared("tn_a"));
}
END_TEST

Suite *suite_names(void)
{
    Suite *s = suite_create("names");
    TCase *t = tcase_create("names");
    tcase_add_test(t, every_name_has_its_function_or_a_reason);
    suite_add_tcase(s, t);
    return s;
}
