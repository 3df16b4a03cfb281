#include "textflag.h"

// Blocks are held with their bytes reversed, so that a carry-less product of two is the product of GHASH's polynomials shifted by one bit; the powers
// of the hash key are shifted by that bit beforehand. The reduction of a product of 256 bits, here X5 (low) and X6 (high), to X11 takes two steps of
// 64 bits (Gueron, "Intel carry-less multiplication instruction and its usage for computing the GCM mode").

DATA reverse<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA reverse<>+8(SB)/8, $0x0001020304050607
GLOBL reverse<>(SB), (NOPTR+RODATA), $16

DATA poly<>+0(SB)/8, $0x0000000000000001
DATA poly<>+8(SB)/8, $0xc200000000000000
GLOBL poly<>(SB), (NOPTR+RODATA), $16

// What is added to the counters: of the four blocks of a register, and for the next register.
DATA count<>+0(SB)/8, $0
DATA count<>+8(SB)/8, $0
DATA count<>+16(SB)/8, $1
DATA count<>+24(SB)/8, $0
DATA count<>+32(SB)/8, $2
DATA count<>+40(SB)/8, $0
DATA count<>+48(SB)/8, $3
DATA count<>+56(SB)/8, $0
DATA count<>+64(SB)/8, $4
DATA count<>+72(SB)/8, $0
GLOBL count<>(SB), (NOPTR+RODATA), $80

#define REDUCE1 \
	VPCLMULQDQ $0x01, X5, X10, X7; \
	VPSHUFD    $78, X5, X5;        \
	VPXOR      X7, X5, X5

#define REDUCE \
	REDUCE1;      \
	REDUCE1;      \
	VPXOR X6, X5, X11

#define ROUND(op, key) \
	op key, Z0, Z0; \
	op key, Z1, Z1; \
	op key, Z2, Z2; \
	op key, Z3, Z3

// The key stream of the next 16 blocks in Z0 to Z3.
#define STREAM \
	VPSHUFB Z9, Z4, Z0;      \
	VPADDD  Z8, Z4, Z4;      \
	VPSHUFB Z9, Z4, Z1;      \
	VPADDD  Z8, Z4, Z4;      \
	VPSHUFB Z9, Z4, Z2;      \
	VPADDD  Z8, Z4, Z4;      \
	VPSHUFB Z9, Z4, Z3;      \
	VPADDD  Z8, Z4, Z4;      \
	ROUND(VPXORQ, Z16);      \
	ROUND(VAESENC, Z17);     \
	ROUND(VAESENC, Z18);     \
	ROUND(VAESENC, Z19);     \
	ROUND(VAESENC, Z20);     \
	ROUND(VAESENC, Z21);     \
	ROUND(VAESENC, Z22);     \
	ROUND(VAESENC, Z23);     \
	ROUND(VAESENC, Z24);     \
	ROUND(VAESENC, Z25);     \
	ROUND(VAESENCLAST, Z26)

// Loads the four blocks of ciphertext at R8 + at.
#define LOAD(at) \
	VMOVDQU64 at(R8), Z31; \
	VPSHUFB   Z9, Z31, Z31

// The product of the blocks in Z31 and their powers, by Karatsuba's three: low and high halves, and the sums of both. folded is where those of the powers are.
#define PRODUCT(powers, folded, low, high, sums) \
	VPCLMULQDQ $0x00, powers, Z31, low;      \
	VPCLMULQDQ $0x11, powers, Z31, high;     \
	VPSHUFD    $78, Z31, sums;               \
	VPXORQ     Z31, sums, sums;              \
	VPCLMULQDQ $0x00, folded(AX), sums, sums

// Adds a product to Z5 (low), Z6 (high) and Z7 (sums).
#define MULTIPLY(powers, folded) \
	PRODUCT(powers, folded, Z27, Z28, Z29); \
	VPXORQ Z27, Z5, Z5;                     \
	VPXORQ Z28, Z6, Z6;                     \
	VPXORQ Z29, Z7, Z7

// Reduces the sum of 16 products to X11.
#define FOLD \
	VPTERNLOGQ    $0x96, Z5, Z6, Z7; \
	VPSLLDQ       $8, Z7, Z27;       \
	VPSRLDQ       $8, Z7, Z28;       \
	VPXORQ        Z27, Z5, Z5;       \
	VPXORQ        Z28, Z6, Z6;       \
	VEXTRACTI64X4 $1, Z5, Y27;       \
	VEXTRACTI64X4 $1, Z6, Y28;       \
	VPXORQ        Y27, Y5, Y5;       \
	VPXORQ        Y28, Y6, Y6;       \
	VEXTRACTI128  $1, Y5, X7;        \
	VPXOR         X7, X5, X5;        \
	VEXTRACTI128  $1, Y6, X7;        \
	VPXOR         X7, X6, X6;        \
	REDUCE

// Hashes the 16 blocks of ciphertext at R8 into X11, which the product of the first four waits for.
#define HASH \
	LOAD(64);                         \
	PRODUCT(Z13, 496, Z5, Z6, Z7);    \
	LOAD(128);                        \
	MULTIPLY(Z14, 560);               \
	LOAD(192);                        \
	MULTIPLY(Z15, 624);               \
	LOAD(0);                          \
	VPXORQ Z11, Z31, Z31;             \
	MULTIPLY(Z12, 432);               \
	FOLD

// Encrypts or decrypts 16 blocks with the key stream.
#define CRYPT \
	VPXORQ    0(SI), Z0, Z0;   \
	VPXORQ    64(SI), Z1, Z1;  \
	VPXORQ    128(SI), Z2, Z2; \
	VPXORQ    192(SI), Z3, Z3; \
	VMOVDQU64 Z0, 0(DI);       \
	VMOVDQU64 Z1, 64(DI);      \
	VMOVDQU64 Z2, 128(DI);     \
	VMOVDQU64 Z3, 192(DI);     \
	ADDQ      $256, SI;        \
	ADDQ      $256, DI

// The processor fetches ahead within a page only; what is sealed is seldom in its caches.
#define FETCH \
	PREFETCHT0 4096(SI); \
	PREFETCHT0 4160(SI); \
	PREFETCHT0 4224(SI); \
	PREFETCHT0 4288(SI)

#define SETUP \
	MOVQ            k+0(FP), AX;         \
	MOVQ            counter+8(FP), BX;   \
	MOVQ            dst+16(FP), DI;      \
	MOVQ            src+24(FP), SI;      \
	MOVQ            n+32(FP), CX;        \
	VBROADCASTI32X4 0(AX), Z16;          \
	VBROADCASTI32X4 16(AX), Z17;         \
	VBROADCASTI32X4 32(AX), Z18;         \
	VBROADCASTI32X4 48(AX), Z19;         \
	VBROADCASTI32X4 64(AX), Z20;         \
	VBROADCASTI32X4 80(AX), Z21;         \
	VBROADCASTI32X4 96(AX), Z22;         \
	VBROADCASTI32X4 112(AX), Z23;        \
	VBROADCASTI32X4 128(AX), Z24;        \
	VBROADCASTI32X4 144(AX), Z25;        \
	VBROADCASTI32X4 160(AX), Z26;        \
	VMOVDQU64       176(AX), Z12;        \
	VMOVDQU64       240(AX), Z13;        \
	VMOVDQU64       304(AX), Z14;        \
	VMOVDQU64       368(AX), Z15;        \
	MOVQ            hash+40(FP), DX;     \
	VMOVDQU         (DX), X11;           \
	VMOVDQU         poly<>(SB), X10;     \
	VBROADCASTI32X4 reverse<>(SB), Z9;   \
	VBROADCASTI32X4 count<>+64(SB), Z8;  \
	VBROADCASTI32X4 (BX), Z4;            \
	VPSHUFB         Z9, Z4, Z4;          \
	VPADDD          count<>(SB), Z4, Z4

#define FINISH \
	VPSHUFB X9, X4, X4; \
	VMOVDQU X4, (BX);   \
	VMOVDQU X11, (DX);  \
	VZEROUPPER

// The same with registers of 256 bits, for CPUs that have VAES and VPCLMULQDQ without AVX-512. A chunk's key stream takes eight of the sixteen registers,
// so encryption and hash follow each other, and the CPU overlaps them as far as it looks ahead.

#define ROUND256(op, at) \
	VBROADCASTI128 at(AX), Y8; \
	op Y8, Y0, Y0; \
	op Y8, Y1, Y1; \
	op Y8, Y2, Y2; \
	op Y8, Y3, Y3; \
	op Y8, Y4, Y4; \
	op Y8, Y5, Y5; \
	op Y8, Y6, Y6; \
	op Y8, Y7, Y7

#define COUNT256(to) \
	VPSHUFB Y14, Y15, to; \
	VPADDD  Y13, Y15, Y15

// The key stream of the next 16 blocks in Y0 to Y7.
#define STREAM256 \
	COUNT256(Y0); \
	COUNT256(Y1); \
	COUNT256(Y2); \
	COUNT256(Y3); \
	COUNT256(Y4); \
	COUNT256(Y5); \
	COUNT256(Y6); \
	COUNT256(Y7); \
	ROUND256(VPXOR, 0); \
	ROUND256(VAESENC, 16); \
	ROUND256(VAESENC, 32); \
	ROUND256(VAESENC, 48); \
	ROUND256(VAESENC, 64); \
	ROUND256(VAESENC, 80); \
	ROUND256(VAESENC, 96); \
	ROUND256(VAESENC, 112); \
	ROUND256(VAESENC, 128); \
	ROUND256(VAESENC, 144); \
	ROUND256(VAESENCLAST, 160)

#define CRYPT2BLOCKS(at, key) \
	VPXOR   at(SI), key, key; \
	VMOVDQU key, at(DI)

#define CRYPT256 \
	CRYPT2BLOCKS(0, Y0); \
	CRYPT2BLOCKS(32, Y1); \
	CRYPT2BLOCKS(64, Y2); \
	CRYPT2BLOCKS(96, Y3); \
	CRYPT2BLOCKS(128, Y4); \
	CRYPT2BLOCKS(160, Y5); \
	CRYPT2BLOCKS(192, Y6); \
	CRYPT2BLOCKS(224, Y7); \
	ADDQ $256, SI; \
	ADDQ $256, DI

// The product of the two blocks in Y0 and their powers; see PRODUCT.
#define PRODUCT256(powers, folded, low, high, sums) \
	VPCLMULQDQ $0x00, powers(AX), Y0, low;  \
	VPCLMULQDQ $0x11, powers(AX), Y0, high; \
	VPSHUFD    $78, Y0, sums;               \
	VPXOR      Y0, sums, sums;              \
	VPCLMULQDQ $0x00, folded(AX), sums, sums

#define MULTIPLY256(at, powers, folded) \
	VMOVDQU at(R8), Y0;                      \
	VPSHUFB Y14, Y0, Y0;                     \
	PRODUCT256(powers, folded, Y1, Y2, Y3); \
	VPXOR   Y1, Y5, Y5;                      \
	VPXOR   Y2, Y6, Y6;                      \
	VPXOR   Y3, Y12, Y12

// Hashes the 16 blocks of ciphertext at R8 into X11.
#define HASH256 \
	VMOVDQU      32(R8), Y0;                 \
	VPSHUFB      Y14, Y0, Y0;                \
	PRODUCT256(208, 464, Y5, Y6, Y12);       \
	MULTIPLY256(64, 240, 496);               \
	MULTIPLY256(96, 272, 528);               \
	MULTIPLY256(128, 304, 560);              \
	MULTIPLY256(160, 336, 592);              \
	MULTIPLY256(192, 368, 624);              \
	MULTIPLY256(224, 400, 656);              \
	VMOVDQU      (R8), Y0;                   \
	VPSHUFB      Y14, Y0, Y0;                \
	VPXOR        Y11, Y0, Y0;                \
	PRODUCT256(176, 432, Y1, Y2, Y3);        \
	VPXOR        Y1, Y5, Y5;                 \
	VPXOR        Y2, Y6, Y6;                 \
	VPXOR        Y3, Y12, Y12;               \
	VPXOR        Y5, Y12, Y12;               \
	VPXOR        Y6, Y12, Y12;               \
	VPSLLDQ      $8, Y12, Y1;                \
	VPSRLDQ      $8, Y12, Y2;                \
	VPXOR        Y1, Y5, Y5;                 \
	VPXOR        Y2, Y6, Y6;                 \
	VEXTRACTI128 $1, Y5, X1;                 \
	VEXTRACTI128 $1, Y6, X2;                 \
	VPXOR        X1, X5, X5;                 \
	VPXOR        X2, X6, X6;                 \
	REDUCE

#define SETUP256 \
	MOVQ           k+0(FP), AX;        \
	MOVQ           counter+8(FP), BX;  \
	MOVQ           dst+16(FP), DI;     \
	MOVQ           src+24(FP), SI;     \
	MOVQ           n+32(FP), CX;       \
	MOVQ           hash+40(FP), DX;    \
	VMOVDQU        (DX), X11;          \
	VMOVDQU        poly<>(SB), X10;    \
	VBROADCASTI128 reverse<>(SB), Y14; \
	VBROADCASTI128 count<>+32(SB), Y13; \
	VBROADCASTI128 (BX), Y15;          \
	VPSHUFB        Y14, Y15, Y15;      \
	VPADDD         count<>(SB), Y15, Y15

#define FINISH256 \
	VPSHUFB X14, X15, X15; \
	VMOVDQU X15, (BX);     \
	VMOVDQU X11, (DX);     \
	VZEROUPPER

// func sealChunks(k *schedule, counter *[16]byte, dst, src *byte, n int, hash *[2]uint64)
//
// A chunk is hashed while the next one is encrypted: neither waits for the other.
TEXT ·sealChunks(SB), NOSPLIT, $0-48
	SETUP
	MOVQ DI, R8
	STREAM
	CRYPT
	DECQ CX
	JZ   sealLast

sealLoop:
	FETCH
	STREAM
	HASH
	CRYPT
	ADDQ $256, R8
	DECQ CX
	JNZ  sealLoop

sealLast:
	HASH
	FINISH
	RET

// func openChunks(k *schedule, counter *[16]byte, dst, src *byte, n int, hash *[2]uint64)
TEXT ·openChunks(SB), NOSPLIT, $0-48
	SETUP

openLoop:
	MOVQ SI, R8
	STREAM
	HASH
	CRYPT
	DECQ CX
	JNZ  openLoop
	FINISH
	RET

// func hashBlocks(h *[2]uint64, hash *[2]uint64, src *byte, n int)
TEXT ·hashBlocks(SB), NOSPLIT, $0-32
	MOVQ    h+0(FP), AX
	MOVQ    hash+8(FP), DX
	MOVQ    src+16(FP), SI
	MOVQ    n+24(FP), CX
	VMOVDQU (AX), X12
	VMOVDQU (DX), X11
	VMOVDQU poly<>(SB), X10
	VMOVDQU reverse<>(SB), X9

hashLoop:
	VMOVDQU    (SI), X0
	VPSHUFB    X9, X0, X0
	VPXOR      X11, X0, X0
	VPCLMULQDQ $0x00, X12, X0, X5
	VPCLMULQDQ $0x11, X12, X0, X6
	VPCLMULQDQ $0x01, X12, X0, X7
	VPCLMULQDQ $0x10, X12, X0, X1
	VPXOR      X1, X7, X7
	VPSLLDQ    $8, X7, X1
	VPSRLDQ    $8, X7, X2
	VPXOR      X1, X5, X5
	VPXOR      X2, X6, X6
	REDUCE
	ADDQ       $16, SI
	DECQ       CX
	JNZ        hashLoop
	VMOVDQU    X11, (DX)
	VZEROUPPER
	RET

#define EXPAND(rcon, at) \
	AESKEYGENASSIST $rcon, X0, X1; \
	PSHUFD          $0xff, X1, X1; \
	MOVOU           X0, X2;        \
	PSLLDQ          $4, X2;        \
	PXOR            X2, X0;        \
	PSLLDQ          $4, X2;        \
	PXOR            X2, X0;        \
	PSLLDQ          $4, X2;        \
	PXOR            X2, X0;        \
	PXOR            X1, X0;        \
	MOVOU           X0, at(DI)

// func expandKey(k *schedule, key *byte)
TEXT ·expandKey(SB), NOSPLIT, $0-16
	MOVQ  k+0(FP), DI
	MOVQ  key+8(FP), SI
	MOVOU (SI), X0
	MOVOU X0, 0(DI)
	EXPAND(0x01, 16)
	EXPAND(0x02, 32)
	EXPAND(0x04, 48)
	EXPAND(0x08, 64)
	EXPAND(0x10, 80)
	EXPAND(0x20, 96)
	EXPAND(0x40, 112)
	EXPAND(0x80, 128)
	EXPAND(0x1b, 144)
	EXPAND(0x36, 160)
	RET

// func sealChunks256(k *schedule, counter *[16]byte, dst, src *byte, n int, hash *[2]uint64)
TEXT ·sealChunks256(SB), NOSPLIT, $0-48
	SETUP256
	MOVQ DI, R8
	STREAM256
	CRYPT256
	DECQ CX
	JZ   sealLast256

sealLoop256:
	FETCH
	STREAM256
	CRYPT256
	HASH256
	ADDQ $256, R8
	DECQ CX
	JNZ  sealLoop256

sealLast256:
	HASH256
	FINISH256
	RET

// func openChunks256(k *schedule, counter *[16]byte, dst, src *byte, n int, hash *[2]uint64)
TEXT ·openChunks256(SB), NOSPLIT, $0-48
	SETUP256

openLoop256:
	MOVQ SI, R8
	HASH256
	STREAM256
	CRYPT256
	DECQ CX
	JNZ  openLoop256
	FINISH256
	RET

// func extendedFeatures() (ecx uint32)
TEXT ·extendedFeatures(SB), NOSPLIT, $0-4
	MOVL $7, AX
	XORL CX, CX
	CPUID
	MOVL CX, ecx+0(FP)
	RET
