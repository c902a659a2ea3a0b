/* SPDX-License-Identifier: MIT */
/* The loopback web server of the tests: HTTP/1.1 with Connection: close, enough for a download. */
#define _GNU_SOURCE
#include "httpd.h"
#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener = -1;
static pthread_t thread;
static httpd_page *all;

static void send_all(int fd, const void *p, size_t n)
{
    const char *c = p;
    while (n > 0) {
        const ssize_t k = send(fd, c, n, MSG_NOSIGNAL);
        if (k <= 0) return;
        c += k;
        n -= (size_t)k;
    }
}

static void serve_page(int fd, httpd_page *p, const char *request)
{
    char head[512], etag[128] = "";
    const char *range = strcasestr(request, "\r\nrange: bytes="),
               *cond = strcasestr(request, "\r\nif-range: ");
    size_t from = 0, n = p->n;
    p->requests++;
    if (p->etag) snprintf(etag, sizeof etag, "ETag: %s\r\n", p->etag);
    if (range && p->ranges &&
        (!cond || (p->etag && strncmp(cond + 12, p->etag, strlen(p->etag)) == 0)))
        from = strtoull(range + 15, NULL, 10);
    if (p->redirect)
        snprintf(
            head, sizeof head,
            "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            p->redirect),
            n = 0;
    else if (p->status)
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", p->status),
            n = 0;
    else if (from > 0 && from >= p->n)
        snprintf(head, sizeof head,
                 "HTTP/1.1 416 Range\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            n = 0;
    else if (from > 0) {
        snprintf(head, sizeof head,
                 "HTTP/1.1 206 Partial\r\nContent-Range: bytes %zu-%zu/%zu\r\nContent-Length: "
                 "%zu\r\n%sConnection: close\r\n\r\n",
                 from, p->n - 1, p->n, p->n - from, etag);
        p->partial++;
        n -= from;
    } else
        snprintf(head, sizeof head,
                 "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n", p->n,
                 etag);
    send_all(fd, head, strlen(head));
    if (n && p->cut-- > 0) n /= 2;
    if (n) send_all(fd, (const char *)p->body + from, n);
}

static void serve(int fd)
{
    char request[4096];
    size_t n = 0;
    while (n < sizeof request - 1) {
        const ssize_t k = recv(fd, request + n, sizeof request - 1 - n, 0);
        if (k <= 0) return;
        n += (size_t)k;
        request[n] = '\0';
        if (strstr(request, "\r\n\r\n")) break;
    }
    char *path = strchr(request, ' ');
    if (!path) return;
    const size_t len = strcspn(++path, " ");
    for (httpd_page *p = all; p->path; p++)
        if (strlen(p->path) == len && memcmp(p->path, path, len) == 0) {
            serve_page(fd, p, request);
            return;
        }
    static const char none[] =
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    send_all(fd, none, sizeof none - 1);
}

static void *loop(void *arg)
{
    int fd;
    (void)arg;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        serve(fd);
        shutdown(fd, SHUT_RDWR);
        close(fd);
    }
    return NULL;
}

int httpd_start(httpd_page *pages)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    all = pages;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, loop, NULL), 0);
    return ntohs(a.sin_port);
}

void httpd_stop(void)
{
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    listener = -1;
}
