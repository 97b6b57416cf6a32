package gateway

// AdminRoutes are what the admin listener's API can be asked, each as METHOD
// path.
func (g *Gateway) AdminRoutes() (list []string) {
	for _, r := range g.adminRoutes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}
