package wire

// FromPage reports whether a page of another site in a browser sent a request. Such requests must be rejected: browsers let
// any page POST to a server on loopback, although the page cannot read the response. Executors, servers and HTTP clients send
// none of the headers that browsers add. The parameter header has canonical keys; an http.Header can be passed.
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
