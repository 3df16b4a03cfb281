package command

// PageFlag names the flag with the address of a live page, of a job's and of a search's. Its value
// pageOff stands for no page.
const (
	PageFlag = "status-listen"
	PageOff  = "off"
)
