SELECT auction, bidder, price, channel, url, date_time, extra
FROM bid
WHERE date_time = (
    SELECT max(date_time) FROM bid AS other WHERE other.bidder = bid.bidder AND other.auction = bid.auction
)
