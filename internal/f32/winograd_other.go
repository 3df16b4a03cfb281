//go:build !amd64

package f32

// WinogradInput is Bᵀ·d·B.
func (t *Tile) WinogradInput(a *WinogradArgs) { winogradPortable(a, winogradB) }

// WinogradWeight is G·g·Gᵀ.
func (t *Tile) WinogradWeight(a *WinogradArgs) { winogradPortable(a, winogradG) }

// WinogradOutput is Aᵀ·m·A.
func (t *Tile) WinogradOutput(a *WinogradArgs) { winogradPortable(a, winogradA) }
