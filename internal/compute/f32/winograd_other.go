//go:build !amd64 && !arm64

package f32

// WinogradInput is Bᵀ·d·B.
func (t *Tile) WinogradInput(a *WinogradArgs) { winogradPortable(a, winogradB) }

// WinogradWeight is G·g·Gᵀ.
func (t *Tile) WinogradWeight(a *WinogradArgs) { winogradPortable(a, winogradG) }

// WinogradOutput is Aᵀ·m·A.
func (t *Tile) WinogradOutput(a *WinogradArgs) { winogradPortable(a, winogradA) }

// WinogradGradient is G·g·Gᵀ of F(3×3, 2×2).
func (t *Tile) WinogradGradient(a *WinogradArgs) { winogradPortable(a, winogradGradientG) }

// WinogradTaps is Aᵀ·m·A of F(3×3, 2×2).
func (t *Tile) WinogradTaps(a *WinogradArgs) { winogradPortable(a, winogradTapsA) }
