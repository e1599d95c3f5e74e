package words

// LeaderKey names a trailer of Jobs.Submit: host and port where the leader answers, as
// told to other nodes. A node that forwarded the call says so, and the next one may go
// there and save the way.
const LeaderKey = "rota-leader"
