package objects

// Held is what an Ahead has in memory, and how many ranges it knows.
func (a *Ahead) Held() (bytes int64, ranges int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes, len(a.ranges)
}
