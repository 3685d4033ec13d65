SELECT auction, bidder, price, date_time, value
FROM bid JOIN side_input ON auction % 10000 = key
