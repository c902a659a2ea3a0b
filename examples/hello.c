/* SPDX-License-Identifier: MIT */
/* hello.c -- adds two vectors.  cc hello.c $(pkg-config --cflags --libs tenon) -o hello */
#include <tenon/tenon.h>

int main(void)
{
    TN_SCOPE;
    tn_tensor *a = tn_from_data((const float[]){1, 2, 3}, SHAPE(3));
    tn_tensor *b = tn_from_data((const float[]){10, 20, 30}, SHAPE(3));
    return tn_print(tn_add(a, b)) ? 0 : 1;
}
