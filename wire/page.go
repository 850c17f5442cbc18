package wire

// FromPage reports whether the header of a request says that a page in a browser
// sent it: executors, servers and endpoints send none of these fields. A page of
// anybody's reaches what listens on this machine, also under a name of its own that
// leads there, and needs no permission to POST; of what it is answered it is not
// asked. header has canonical names, as an http.Header.
func FromPage(header map[string][]string) bool {
	if len(header["Origin"]) > 0 {
		return true
	}
	for _, site := range header["Sec-Fetch-Site"] {
		if site != "none" && site != "same-origin" {
			return true
		}
	}
	return false
}
