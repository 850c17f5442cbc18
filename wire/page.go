package wire

// FromPage reports whether the header of a request shows that a page in a browser sent it: executors, servers and endpoints send
// none of these fields. A page of any site can reach servers on loopback, even under a host name of its own. Browsers let it POST
// without permission, although it cannot read the answer. header has canonical names, as an http.Header.
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
