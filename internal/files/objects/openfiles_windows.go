package objects

// maxOpenFiles is how many files a store keeps open.
func maxOpenFiles() int { return 256 }
