#include "textflag.h"

// Go's assembler does not know the instructions of the tile unit, so they are bytes here; above each, how binutils writes it.
// TestTileInstructionsAreWhatBinutilsMakesOfThem compares both.

// ldtilecfg (rsi)
#define LDTILECFG_SI BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x06
// tilerelease
#define TILERELEASE BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0
// tilezero tmm0
#define TILEZERO0 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc0
// tilezero tmm1
#define TILEZERO1 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc8
// tilezero tmm2
#define TILEZERO2 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd0
// tilezero tmm3
#define TILEZERO3 BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd8
// tileloadd (rdx,r9,1), tmm0
#define LOADSUMS0 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x04; BYTE $0x0a
// tileloadd 64(rdx,r9,1), tmm1
#define LOADSUMS1 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x4c; BYTE $0x0a; BYTE $0x40
// tileloadd 2048(rdx,r9,1), tmm2
#define LOADSUMS2 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x94; BYTE $0x0a; BYTE $0x00; BYTE $0x08; BYTE $0x00; BYTE $0x00
// tileloadd 2112(rdx,r9,1), tmm3
#define LOADSUMS3 BYTE $0xc4; BYTE $0xa2; BYTE $0x7b; BYTE $0x4b; BYTE $0x9c; BYTE $0x0a; BYTE $0x40; BYTE $0x08; BYTE $0x00; BYTE $0x00
// tilestored tmm0, (rdx,r9,1)
#define STORESUMS0 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x04; BYTE $0x0a
// tilestored tmm1, 64(rdx,r9,1)
#define STORESUMS1 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x4c; BYTE $0x0a; BYTE $0x40
// tilestored tmm2, 2048(rdx,r9,1)
#define STORESUMS2 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x94; BYTE $0x0a; BYTE $0x00; BYTE $0x08; BYTE $0x00; BYTE $0x00
// tilestored tmm3, 2112(rdx,r9,1)
#define STORESUMS3 BYTE $0xc4; BYTE $0xa2; BYTE $0x7a; BYTE $0x4b; BYTE $0x9c; BYTE $0x0a; BYTE $0x40; BYTE $0x08; BYTE $0x00; BYTE $0x00
// tileloadd (r13,r8,1), tmm4
#define LOADA4 BYTE $0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $0x64; BYTE $0x05; BYTE $0x00
// tileloadd (r14,r8,1), tmm5
#define LOADA5 BYTE $0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $0x2c; BYTE $0x06
// tileloadd (r12,r9,1), tmm6
#define LOADB6 BYTE $0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $0x34; BYTE $0x0c
// tileloadd 64(r12,r9,1), tmm7
#define LOADB7 BYTE $0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $0x7c; BYTE $0x0c; BYTE $0x40
// tdpbf16ps tmm6, tmm4, tmm0
#define DOT0_4_6 BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4
// tdpbf16ps tmm7, tmm4, tmm1
#define DOT1_4_7 BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xcc
// tdpbf16ps tmm6, tmm5, tmm2
#define DOT2_5_6 BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xd5
// tdpbf16ps tmm7, tmm5, tmm3
#define DOT3_5_7 BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xdd

// func blocksAMX(a *BlockArgs, config *[64]byte)
//
// DI: a, R8: bytes between rows of A, R9: 128, bytes between rows of B and of sums, R11: bytes of A in a step, R10: the block's two rows,
// BX: the panel, DX: its sums, SI: the segment and CX: how many are left, R13, R14 and R12: A's upper and lower rows and B in the step under
// way, AX: steps left. Registers 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns of B.
TEXT ·blocksAMX(SB), NOSPLIT, $16-16
	MOVQ a+0(FP), DI
	MOVQ config+8(FP), SI
	LDTILECFG_SI
	MOVQ 120(DI), R8
	SHLQ $1, R8
	MOVQ $128, R9
	MOVQ 128(DI), R11
	SHLQ $1, R11
	MOVQ 48(DI), DX
	MOVQ 72(DI), R10
	MOVQ 80(DI), AX
	MOVQ AX, blocks-8(SP)

block:
	MOVQ 24(DI), BX
	MOVQ 136(DI), AX
	MOVQ AX, panels-16(SP)

panel:
	CMPQ 152(DI), $0
	JNE  add
	TILEZERO0
	TILEZERO1
	TILEZERO2
	TILEZERO3
	JMP  sum

add:
	LOADSUMS0
	LOADSUMS1
	LOADSUMS2
	LOADSUMS3

sum:
	MOVQ 96(DI), SI
	MOVQ 104(DI), CX

segment:
	MOVQ 0(SI), R13
	MOVQ 0(DI), AX
	LEAQ (AX)(R13*2), R14
	MOVQ 0(R10), R13
	LEAQ (R14)(R13*2), R13
	MOVQ 8(R10), AX
	LEAQ (R14)(AX*2), R14
	MOVQ 16(SI), R12
	LEAQ (BX)(R12*2), R12
	MOVQ 8(SI), AX

step:
	LOADB6
	LOADA4
	DOT0_4_6
	LOADA5
	DOT2_5_6
	LOADB7
	DOT1_4_7
	DOT3_5_7
	ADDQ R11, R13
	ADDQ R11, R14
	ADDQ $2048, R12
	DECQ AX
	JNZ  step

	ADDQ $24, SI
	DECQ CX
	JNZ  segment

	STORESUMS0
	STORESUMS1
	STORESUMS2
	STORESUMS3
	ADDQ $4096, DX
	MOVQ 144(DI), AX
	LEAQ (BX)(AX*2), BX
	DECQ panels-16(SP)
	JNZ  panel

	ADDQ $16, R10
	DECQ blocks-8(SP)
	JNZ  block

	TILERELEASE
	RET
