//go:build !amd64

package f32

// Winograd4Input is Bᵀ·d·B of F(4×4, 3×3).
func (t *Tile) Winograd4Input(a *WinogradArgs) { winogradPortable(a, winograd4B) }

// Winograd4Weight is G·g·Gᵀ of F(4×4, 3×3).
func (t *Tile) Winograd4Weight(a *WinogradArgs) { winogradPortable(a, winograd4G) }

// Winograd4Output is Aᵀ·m·A of F(4×4, 3×3).
func (t *Tile) Winograd4Output(a *WinogradArgs) { winogradPortable(a, winograd4A) }

// Winograd4InputBFloat16 is Winograd4Input of pixels that are stored as bfloat16; see Half.
func (t *Tile) Winograd4InputBFloat16(a *WinogradArgs) { winogradInputHalfPortable(a, winograd4B) }

// Winograd4OutputBFloat16 is Winograd4Output to pixels that are stored as bfloat16; see Half.
func (t *Tile) Winograd4OutputBFloat16(a *WinogradArgs) { winogradOutputHalfPortable(a, winograd4A) }
