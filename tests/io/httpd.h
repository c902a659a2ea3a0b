/* SPDX-License-Identifier: MIT */
/* A web server on the loopback interface for the tests of downloads: one thread, one request at a time. */
#ifndef TENON_TESTS_HTTPD_H
#define TENON_TESTS_HTTPD_H
#include <stddef.h>

typedef struct {
    const char *path;
    const void *body;
    size_t n;
    const char *etag; /* NULL: none */
    int cut;          /* so many answers break off in the middle, then all are whole */
    int ranges;       /* honours Range, and If-Range by the ETag */
    const char *redirect;
    int status; /* 0: 200 */
    /* what was seen */
    int requests, partial; /* partial: answered 206 */
} httpd_page;

/* Serves the pages (NULL path ends them) until httpd_stop; gives the port. */
int httpd_start(httpd_page *pages);
void httpd_stop(void);
#endif
