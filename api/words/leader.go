package words

// LeaderKey names a trailer of Jobs.Submit: host and port where the leader answers, as other nodes know them. A node
// that forwarded the call sends it, so that the next call can go there directly.
const LeaderKey = "rota-leader"
